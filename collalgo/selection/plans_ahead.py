"""Plans ahead: the choices on a machine and on it after each single failure, kept.

They are those that calls make. The caches of choices and of synthesised plans keep
them, so that a job that gets another topology plans nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.host_profile import host_profile
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.errors import TopologyError
from collalgo.selection.choice import select
from collalgo.selection.decide import PRICE
from collalgo.selection.failures import Failure, failures
from collalgo.selection.losses import Loss
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.selection import Selection
from collalgo.topology.model import Kind, Topology


class Call(NamedTuple):
    """A call that is planned: a collective of a size in bytes.

    An alltoallv has the bytes from each rank to each instead.
    """

    collective: str
    nbytes: int | None
    counts: ByteMatrix | None = None

    def choose(self, pricer: TopologyPricer) -> Selection:
        """The choice for it."""
        return select(self.collective, self.nbytes, counts=self.counts, topology=pricer)


class Outcome(NamedTuple):
    """What a failure makes of the machine.

    Attributes
    ----------
    failure : Failure
        The element that fails.
    losses : dict
        The loss of each call that has a choice.
    obstacles : dict
        What prevents a choice for each other call, as ranks that cannot be reached.
    """

    failure: Failure
    losses: Mapping[Call, Loss]
    obstacles: Mapping[Call, str]


class Equals(NamedTuple):
    """Elements that are equal by symmetry, and the outcomes for those planned for."""

    failures: Sequence[Failure]
    outcomes: Sequence[Outcome]

    def worst(self, call: Call) -> Outcome:
        """The outcome with the longest time of a call, or without a choice."""

        def seconds(outcome: Outcome) -> float:
            loss = outcome.losses.get(call)
            return loss.chosen.seconds if loss else inf

        return max(self.outcomes, key=seconds)


@dataclass(frozen=True)
class Ahead:
    """Plans of some calls for a machine.

    Attributes
    ----------
    topology : Topology
        The machine.
    calls : sequence of Call
        The calls.
    link_model : LinkModel
        The costs of messages.
    per_host : int
        The number of ranks on the cores of each host, as of a job; 0 for ranks on all
        places of the machine.
    root : int
        The root of rooted collectives.
    """

    topology: Topology
    calls: Sequence[Call]
    link_model: LinkModel
    per_host: int = 0
    root: int = 0

    def placement(self, topology: Topology) -> Placement:
        """The ranks on the machine, or on what is left of it.

        Raises
        ------
        TopologyError
            If a host has fewer cores than ranks.
        """
        devices = _job_devices(topology, self.per_host) if self.per_host else ()
        return Placement(topology, devices, self.link_model)

    def choices(self, topology: Topology) -> dict[Call, Selection]:
        """The choices on a machine, kept with their plans, which are proved.

        Raises
        ------
        TopologyError
            If a rank cannot reach another, or none is left.
        """
        pricer = self._pricer(topology)
        return {call: self._choice(call, pricer) for call in dict.fromkeys(self.calls)}

    def _pricer(self, topology: Topology) -> TopologyPricer:
        """The prices of the ranks on the machine, or on what is left of it."""
        placement = self.placement(topology)
        if placement.size <= self.root:
            raise TopologyError(f"there is no rank {self.root} to be the root")
        return TopologyPricer(topology, self.link_model, placement.devices)

    def _choice(self, call: Call, pricer: TopologyPricer) -> Selection:
        """The choice for a call, whose schedule is proved."""
        found = call.choose(pricer)
        if found.decider == PRICE and call.counts is None:
            pricer.choices(call.collective)  # for all sizes: calls have others, too
        decision = found.decision
        if decision.unproved:
            pricer.prove(decision.candidate.row, decision.schedule, self.root)
        return found

    def each_failure(
        self,
        whole: Mapping[Call, Selection],
        one_of_equals: bool,
        progress: Callable[[str], None],
    ) -> list[Equals]:
        """Plan for each single failure.

        Parameters
        ----------
        whole
            The choices on the whole machine.
        one_of_equals
            Whether to plan for the first of equal elements only.
        progress
            Gets words for the present work.
        """
        groups = failures(self.placement(self.topology))
        planned = [group[: 1 if one_of_equals else None] for group in groups]
        count, done, found = sum(map(len, planned)), 0, []
        for group, some in zip(groups, planned, strict=True):
            outcomes = []
            for failure in some:
                done += 1
                progress(f"planning without {failure} ({done} of {count})")
                outcomes.append(self._without(failure, whole))
            found.append(Equals(group, outcomes))
        return found

    def _without(self, failure: Failure, whole: Mapping[Call, Selection]) -> Outcome:
        """Plan for a failure."""
        rest = self.topology.without(failure.name)
        try:
            pricer = self._pricer(rest)
        except TopologyError as error:
            return Outcome(failure, {}, dict.fromkeys(whole, _obstacle(error, rest)))
        losses, obstacles = {}, {}
        for call, before in whole.items():
            try:
                found = self._choice(call, pricer)
            except TopologyError as error:  # as a matrix of more ranks than are left
                obstacles[call] = _obstacle(error, rest)
            else:
                losses[call] = Loss.of(found, before, pricer.placement, call.counts)
        return Outcome(failure, losses, obstacles)


def _obstacle(error: TopologyError, rest: Topology) -> str:
    """The reason of an error, whose machine is known."""
    return str(error).removeprefix(f"{rest.name}: ")


def job_link_model() -> LinkModel:
    """The costs of messages of a job on hosts like this one."""
    return LinkModel.of_host(host_profile())


def _job_devices(topology: Topology, per_host: int) -> list[str]:
    """The cores of the ranks of a job, as ``comm.replan`` places them."""
    found = []
    for host in topology.hosts:
        cores = [core.id for core in topology.devices(Kind.CORE, host=host)]
        if len(cores) < per_host:
            raise TopologyError(
                f"{topology.name}: {host} has {len(cores)} cores but {per_host} ranks"
            )
        found += cores[:per_host]
    return found
