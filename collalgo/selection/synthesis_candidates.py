"""Schedules synthesised for a topology, as further candidates."""

from collections.abc import Iterator
from functools import partial

from collalgo.algorithms.row import Algorithm
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line
from collalgo.selection.prices import LazyCandidate
from collalgo.synthesis.planner import Form, Planner, can_plan
from collalgo.synthesis.synthesized import Synthesis, form_of, is_name
from collalgo.topology.model import Topology
from collalgo.topology.path_types import PathType


class SynthesisCandidates:
    """The candidates of ranks on a topology, planned only where they may win.

    Parameters
    ----------
    placement
        The device of each rank.
    planner
        The plans; by default those for equal blocks.
    """

    def __init__(self, placement: Placement, planner: Planner | None = None):
        self._placement = placement
        self.planner = planner or Planner(placement)
        self._synthesis = Synthesis(self.planner)

    def rows(self, collective: str) -> list[Algorithm]:
        """The row of a collective, if it can be planned."""
        if not can_plan(collective, self._placement):
            return []
        return [self._synthesis.row(collective)]

    def named(self, collective: str, name: str) -> Algorithm | None:
        """The row of a name, which may give parameters; None if it is another's."""
        if not is_name(name) or not self.rows(collective):
            return None
        return self._synthesis.named(collective, name)

    def of(self, row: Algorithm) -> list[LazyCandidate]:
        """The variants of a row, priced at first by the links of single ranks."""
        if row.parameters:
            return [self._candidate(row)]
        return [*map(self._candidate, self._synthesis.variants(row.collective))]

    def _candidate(self, row: Algorithm) -> LazyCandidate:
        form, collective = form_of(row), row.collective
        latency = form.least_steps(collective) * _least_latency(self._placement)
        floor = Line(latency, self._floor(collective))
        return LazyCandidate(row, "", floor, partial(self._estimates, collective, form))

    def _floor(self, collective: str) -> float:
        """The least seconds for each byte of a buffer, of any schedule."""
        return port_floor(collective, self._placement)

    def _estimates(self, collective: str, form: Form) -> Iterator[Line]:
        """A lower bound by the trees alone, and the price of the plan."""
        yield self.planner.least(collective, form)
        yield self.planner.price(collective, form)


def _least_latency(placement: Placement) -> float:
    """The least seconds of any message between two ranks."""
    assert isinstance(placement.machine, Topology)
    of_types = placement.link_model.latency.items()
    given = [link.latency for link in placement.machine.links]
    known = [seconds for kind, seconds in of_types if kind is not PathType.LOC]
    return min(known + [seconds for seconds in given if seconds is not None])


def port_speeds(placement: Placement) -> list[float]:
    """The bytes per second of all links of each rank."""
    assert isinstance(placement.machine, Topology)
    return [
        sum(map(placement.link_model.bytes_per_second, placement.machine.links_of(one)))
        for one in placement.devices
    ]


def port_floor(collective: str, placement: Placement) -> float:
    """Seconds for each byte of a buffer that the links of each rank take at least."""
    speeds = port_speeds(placement)
    if not all(speeds):  # a rank that no other one reaches, as the routes will tell
        return 0.0
    size = len(speeds)
    others = (size - 1) / size
    return {
        "allreduce": 2 * (size - 1) / sum(speeds),
        "broadcast": 1 / min(speeds),
        "reduce": 1 / min(speeds),
        "gather": others / speeds[0],
        "scatter": others / speeds[0],
    }.get(collective, others / min(speeds))
