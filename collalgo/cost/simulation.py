"""The price of a schedule on a topology, and its bottleneck.

There are two models of the same messages. In both a message takes the best route, and a
link carries its bandwidth in both directions at once.

- ``rounds``: all ranks begin a step together; see :mod:`collalgo.cost.rounds`.
- ``fluid``: a rank continues as its own messages arrive, and active messages share
  links max-min fairly; see :mod:`collalgo.cost.fluid`.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from collalgo.algorithms.table import shortened
from collalgo.base.units import counted, human_time, number_of_bytes
from collalgo.cost.bounds import Bound
from collalgo.cost.fluid import FluidSimulation
from collalgo.cost.job import Job
from collalgo.cost.late_ranks import checked_late, described, seconds_after_arrival
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.lower_bound import compared
from collalgo.cost.machine import check_machine, check_root
from collalgo.cost.placement import Placement
from collalgo.cost.routing import DirectedLink, Routing
from collalgo.cost.symmetry import check_messages
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.topology.assumed import marked, rules_of
from collalgo.topology.model import Topology
from collalgo.topology.places import ranks_of

MODELS = ("rounds", "fluid")

__all__ = ["MODELS", "Simulation", "ranks_of", "simulate"]


class Simulation(NamedTuple):
    """The predicted time of a schedule on a topology.

    Attributes
    ----------
    collective, algorithm, model : str
        The names of the collective, of the algorithm and of the model.
    size : int
        The number of ranks.
    nbytes : float
        The bytes of the buffer.
    seconds : float
        The time from the arrival of the last rank until the last rank is done.
    steps : tuple of float
        The seconds of each step in the model of rounds, without waits for late ranks.
    bottlenecks : tuple
        The bottleneck of each step, a link and its direction, or None for a step
        without messages; in the model of rounds.
    busy : dict
        The busy seconds of each link and direction; for a cluster those of its first
        host.
    bound : Bound or None
        The lower bound of ``seconds``, if known.
    defaults : tuple of str
        The parameters that would follow the machine, but have the algorithm's default.
    late : dict or None
        The seconds by which ranks come late; None if none does.
    unbounded : str
        The reason why a schedule of a part of a collective has no bound; else "".
    """

    collective: str
    algorithm: str
    model: str
    size: int
    nbytes: float
    seconds: float
    steps: tuple[float, ...]
    bottlenecks: tuple[DirectedLink | None, ...]
    busy: dict[DirectedLink, float]
    bound: Bound | None
    defaults: tuple[str, ...] = ()
    late: dict[int, float] | None = None
    unbounded: str = ""

    @property
    def ratio(self) -> float | None:
        """The time as a multiple of the bound; None without a bound."""
        least = self.bound.seconds(self.nbytes) if self.bound else 0.0
        return self.seconds / least if least else None

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumed speeds of links that carry messages; empty if all are known."""
        return rules_of(link for link, _ in self.busy)

    @property
    def in_the_way(self) -> tuple[DirectedLink | None, ...]:
        """The former name of ``bottlenecks``; deprecated."""
        _warn("Simulation.in_the_way", "bottlenecks")
        return self.bottlenecks

    @property
    def bottleneck(self) -> DirectedLink | None:
        """The link and the direction with the longest busy time."""
        return max(self.busy, key=self.busy.__getitem__, default=None)

    def __str__(self) -> str:
        call = f"{self.collective} by {shortened(self.algorithm)}"
        text = (
            f"{COLLECTIVES[self.collective].sized(call, self.nbytes)} on "
            f"{counted(self.size, 'rank')}: {human_time(self.seconds)}"
            f"{marked(self.assumed)} (model: {self.model})"
        )
        if self.late:
            text += f"\n{described(self.late)}"
        directed_link = self.bottleneck
        if directed_link is not None:
            busy = human_time(self.busy[directed_link])
            text += f"\nbottleneck: {describe(directed_link)}, busy for {busy}"
        if self.defaults:
            text += f"\nnot fitted to the machine: {', '.join(self.defaults)} (default)"
        if self.bound is not None and self.ratio is not None:
            text += f"\n{compared(self.seconds, self.bound, self.nbytes)}"
        elif self.unbounded:
            text += f"\n{self.unbounded}"
        assumed = dict.fromkeys((*self.assumed, *(self.bound or self).assumed))
        return "\n".join([text, *(f"assumed: {rule}" for rule in assumed)])


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


def describe(directed_link: DirectedLink) -> str:
    """Describe a link and its direction."""
    link, forth = directed_link
    a, b = link.ends if forth else link.ends[::-1]
    speed = f"{link.bandwidth:g} GB/s{marked(link.assumed)}"
    return f"{link.kind.value} from {a} to {b} ({speed})"


def simulate(
    algorithm: str | ScheduleFunction,
    topology: Topology | UniformCluster,
    nbytes: float | str,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
    link_model: LinkModel = DEFAULTS,
    model: str = "rounds",
    figures: LinkModel | None = None,
    late: Mapping[int, float] | None = None,
) -> Simulation:
    """Predict the time of a schedule on a topology.

    Parameters
    ----------
    algorithm
        The name of an algorithm, with or without parameters, or a function of a group.
        One of a user is proved first, for up to 64 ranks. Parameters that the name does
        not give follow the machine: grids, hosts and cycles of links.
    topology
        The machine; its GPUs, else its cores, its CPUs or its hosts, are the ranks.
    nbytes
        The bytes of the whole buffer, as a number or ``"1M"``; for an alltoall, of the
        buffer of each rank.
    collective
        The collective that the schedule implements.
    root
        The rank of the root.
    order
        The device of each rank; by default the order of the topology. See
        ``collalgo.topology.orders``.
    link_model
        The costs of a message that the links do not give.
    model
        ``rounds`` or ``fluid``.
    figures
        The former name of ``link_model``; deprecated.
    late
        The seconds by which ranks come late, in the model of rounds. Then the time is
        that from the arrival of the last rank.

    Raises
    ------
    TopologyError
        If a rank cannot reach another, or the order names unknown devices.
    AlgorithmNotApplicable, ScheduleError
        If the schedule of a user cannot run, or is wrong.
    TypeError, ValueError
        If ``topology`` is not a topology, or ``late`` does not map ranks to seconds.
    """
    check_machine(topology, "simulate", "topology")
    _check_model(model)
    if figures is not None:
        _warn("simulate(figures=)", "link_model")
        link_model = figures
    nbytes = number_of_bytes(nbytes, "simulate")
    placement = Placement(topology, order or (), link_model)
    check_root(root, placement.size)
    late = checked_late(late, placement.size, model)
    job = Job.of(algorithm, collective, placement, nbytes, root)
    run = _in_rounds if model == "rounds" else _as_fluid
    outcome = run(placement, job, root)
    if late:
        after = seconds_after_arrival(placement, job.schedule, outcome[1], late, root)
        outcome = (after, *outcome[1:])
    limit = job.bound(collective, placement, root, late)
    about = collective, job.name, model, placement.size, nbytes
    rest = job.defaults, late or None, job.unbounded(collective)
    return Simulation(*about, *outcome, limit, *rest)


def _check_model(model: str) -> None:
    """Refuse an unknown model."""
    if model not in MODELS:
        raise TopologyError(
            f"there is no model {model!r}; choose one of {', '.join(MODELS)}"
        )


#: Seconds, seconds of each step, bottleneck of each step, and busy seconds of links.
_Outcome = tuple[
    float,
    tuple[float, ...],
    tuple[DirectedLink | None, ...],
    dict[DirectedLink, float],
]


def _in_rounds(placement: Placement, job: Job, root: int) -> _Outcome:
    folded = placement.fold(job.schedule, job.dims, root)
    if placement.cluster is None:
        check_messages(folded)
    found = placement.rounds(folded)
    steps = tuple((found.latency + job.whole * found.per_byte).tolist())
    bottlenecks = tuple(
        None if number < 0 else found.routes.directed_link(number)
        for number in found.bottleneck.tolist()
    )
    busy = _named(found.routes, found.busy * job.whole)
    return sum(steps), steps, bottlenecks, busy


def _as_fluid(placement: Placement, job: Job, root: int) -> _Outcome:
    messages = placement.messages(job.schedule, root)
    fluid = FluidSimulation(messages, job.whole, placement.routes)
    seconds = fluid.run()
    return seconds, (), (), _named(placement.routes, fluid.busy)


def _named(routes: Routing, busy: Reals) -> dict[DirectedLink, float]:
    """The busy time of each loaded link and direction; of uniform hosts the longest."""
    found: dict[DirectedLink, float] = {}
    for number in np.flatnonzero(busy).tolist():
        link = routes.directed_link(number)
        found[link] = max(found.get(link, 0.0), float(busy[number]))
    return found
