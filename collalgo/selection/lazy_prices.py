"""Prices of algorithms on a topology, bounded from below before they are known."""

from collections.abc import Iterator, Sequence

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base.cache import RecentlyUsed
from collalgo.cost.folding import FEW, Traces
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line
from collalgo.cost.uniform_cluster import port_bound
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.features import TopologyFeatures
from collalgo.selection.prices import LazyCandidate
from collalgo.selection.variants import grids_of

#: A rank has many transfers beyond this number.
MUCH = 50

#: From this number of ranks on the steps of a schedule are counted before it is priced.
MANY = 2048

#: The most steps of a schedule, of all ranks together that no symmetry represents.
MOST_STEPS = 10_000_000

#: The traces that machines with the same number of ranks share.
TRACES: RecentlyUsed[Traces] = RecentlyUsed(1 << 28, lambda one: one.nbytes)


class LazyPrices:
    """The prices of algorithms in the orders of ranks of a topology.

    Parameters
    ----------
    placement
        The device of each rank, in the order of their numbers.
    features
        The other orders.
    """

    def __init__(self, placement: Placement, features: TopologyFeatures):
        self._placement = placement
        self._features = features
        self._floors: dict[str, float] = {}

    def of(self, tried: Sequence[tuple[Algorithm, str]]) -> list[LazyCandidate]:
        """Algorithms in orders of ranks, priced at first by rank 0's first steps."""
        found: dict[tuple[Algorithm, str], LazyCandidate] = {}
        for order in {order for _, order in tried}:
            placement = self._in_order(order)
            rows = [row for row, other in tried if other == order]
            partial_traces = [self._traces(row).beginning for row in rows]
            least = placement.least(partial_traces, [segments_of(row) for row in rows])
            for row, line in zip(rows, least, strict=True):
                found[row, order] = self._lazy_candidate(row, order, line)
        return [found[one] for one in tried]

    def obstacle(self, row: Algorithm) -> str | None:
        """Why an algorithm takes too long to price; None if it does not."""
        size = self._placement.size
        if size < MANY or self._placement.cluster is not None:
            return None
        traces = self._traces(row)
        if traces.length * size <= MOST_STEPS:
            return None
        if traces.length * len(traces.symmetry.representatives) <= MOST_STEPS:
            return None
        return f"its {traces.length} steps on {size} ranks take too long to price"

    def _lazy_candidate(self, row: Algorithm, order: str, least: Line) -> LazyCandidate:
        """A candidate, priced over the bytes of a buffer."""
        placement = self._in_order(order)
        buffers = COLLECTIVES[row.collective].buffers(self._placement.size)
        floor = self._floor(row.collective)

        def estimates() -> Iterator[Line]:
            for line in self._least(row, placement):
                yield line.over(buffers).at_least(floor)
            whole = placement.rounds(self._traces(row).folded, segments_of(row))
            yield whole.line.over(buffers)

        return LazyCandidate(row, order, least.over(buffers).at_least(floor), estimates)

    def _in_order(self, order: str) -> Placement:
        """The ranks on their devices in an order."""
        return self._features.placements[order] if order else self._placement

    def _floor(self, collective: str) -> float:
        """The least seconds for each byte of a buffer, of any schedule."""
        if collective not in self._floors:
            cluster, link_model = self._placement.cluster, self._placement.link_model
            self._floors[collective] = (
                port_bound(collective, cluster, link_model) if cluster else 0.0
            )
        return self._floors[collective]

    def _least(self, row: Algorithm, placement: Placement) -> Iterator[Line]:
        """Lower bounds of an algorithm's price, from the steps of more and more ranks.

        First those of rank 0, then of the first host if these are few or no two ranks
        are symmetric, then also of the first ranks of the other hosts. Of ranks with
        many transfers twice as many are traced each time.
        """
        traces, host = self._traces(row), self._placement.hosts[0]

        def line(ranks: Sequence[int]) -> Line:
            return placement.least([traces.partial_trace(ranks)], [segments_of(row)])[0]

        goes_on = traces.beginning.steps == FEW
        if goes_on:
            yield line(range(1))
        if host == self._placement.size:
            return
        if not goes_on or not any(traces.symmetry.turns):
            ranks = 2 if len(traces.of(range(1), few=not goes_on).step) > MUCH else host
            while ranks < host:
                yield line(range(ranks))
                ranks *= 2
            yield line(range(host))
        if not any(traces.symmetry.turns):
            yield line([*range(host), *range(host, self._placement.size, host)])

    def _traces(self, row: Algorithm) -> Traces:
        """The steps of the ranks, the same for any number of segments."""
        given = dict(row.parameters)
        given.pop("segments", None)
        whole = row._replace(name="", parameters=tuple(given.items()), unproved=True)
        size, grids = self._placement.size, (*grids_of(whole, *self._placement.grid),)
        return TRACES.get(
            (whole, size, grids), lambda: Traces(whole.schedule, size, grids)
        )


def segments_of(row: Algorithm) -> int:
    """The number of segments of an algorithm."""
    segments: int = dict(row.parameters).get("segments", 1)
    return segments
