"""Candidates for ranks on a topology: all algorithms, in several orders of ranks."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from threading import Lock

from collalgo.algorithms import Algorithm, candidates
from collalgo.algorithms.ring import along
from collalgo.algorithms.row import fits
from collalgo.cost.bounds import Bound, bound_of
from collalgo.cost.folding import FEW, Traces
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line
from collalgo.cost.routing import ranks_of
from collalgo.cost.uniform_cluster import UniformCluster, through_ports
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.selection.features import TopologyFeatures
from collalgo.selection.policies.nccl import World
from collalgo.selection.prices import (
    SIZES,
    Choices,
    LazyCandidate,
    Priced,
    applicable,
    prune,
)
from collalgo.selection.selection import nobody, obstacle_to
from collalgo.selection.variants import grids_of, variants, without_twins
from collalgo.topology.model import Topology

#: A rank does much beyond so many transfers.
MUCH = 50


class TopologyPricer:
    """The prices of all candidates on a topology, each computed once for all sizes.

    Parameters
    ----------
    machine
        Where the ranks are to be.
    figures
        What messages cost where links do not tell.
    places
        The device of each rank, if not all devices have one.
    """

    def __init__(
        self,
        machine: Topology | UniformCluster,
        figures: LinkModel = DEFAULTS,
        places: Sequence[str] = (),
    ):
        self.machine = machine
        self.placement = Placement(machine, places, figures)
        self.ground = TopologyFeatures(machine, self.placement)
        self._bounds: dict[str, Bound | None] = {}
        self._candidates: dict[Algorithm, list[LazyCandidate]] = {}
        self._floors: dict[str, float] = {}
        self._lock = Lock()  # ranks that are threads share the prices

    @property
    def basis(self) -> str:
        """What the prices are made of."""
        return f"the links of {self.machine.name}, in rounds"

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.placement.size

    def applicable(
        self, collective: str, reproducible: bool = False
    ) -> tuple[list[Algorithm], dict[Algorithm, str]]:
        """The algorithms that can run, and why the others cannot."""
        obstacle = partial(obstacle_to, size=self.size, reproducible=reproducible)
        return applicable(candidates(collective), obstacle)

    def priced(self, rows: Iterable[Algorithm]) -> list[Priced]:
        """All candidates that some algorithms are, with their prices."""
        with self._lock:
            return [one.priced for one in self.candidates(rows)]

    def prune(self, rows: Iterable[Algorithm], sizes: Reals) -> list[Priced]:
        """The candidates that are the cheapest for some sizes, and maybe others."""
        with self._lock:
            distinct = without_twins(rows, self.size, self.ground.cycles)
            return prune(self.candidates(distinct), sizes)

    def candidates(self, rows: Iterable[Algorithm]) -> list[LazyCandidate]:
        """Some algorithms in all variants and orders that make sense."""
        rows = list(rows)
        hosts, ground = self.placement.hosts, self.ground
        tried = [
            (row, variant, order)
            for row in rows
            if row not in self._candidates
            for variant in variants(row, hosts, ground.cycles, ground.axes)
            for order in self._orders(variant)
            if self._is_fit(variant, order)
        ]
        fresh: dict[Algorithm, list[LazyCandidate]]
        fresh = {row: [] for row in rows if row not in self._candidates}
        glimpsed = self._glimpsed([one[1:] for one in tried])
        for (row, _, _), one in zip(tried, glimpsed, strict=True):
            fresh[row].append(one)
        self._candidates |= fresh
        return [one for row in rows for one in self._candidates[row]]

    def _orders(self, row: Algorithm) -> Iterable[str]:
        """The orders that make sense for a variant.

        Where the number of a rank has a meaning, as for a root, that is the order of
        the topology; cycles have an order of their own.
        """
        rooted = COLLECTIVES[row.collective].rooted
        if rooted or row.collective in ("scan", "exscan"):
            return [""]
        if "cycles" in dict(row.parameters):
            return [self.ground.along]
        return self.ground.sites

    def bound(self, collective: str) -> Bound | None:
        """How fast a collective can be there, computed once; None if not known."""
        if collective not in self._bounds:
            all_are_ranks = isinstance(self.machine, UniformCluster) or (
                self.size == len(ranks_of(self.machine))
            )
            self._bounds[collective] = (
                bound_of(collective, self.machine, figures=self.placement.figures)
                if all_are_ranks
                else None
            )
        return self._bounds[collective]

    def runnable(self, candidate: Priced) -> Algorithm:
        """A candidate as ranks can run it, which stand in their own order."""
        return self._ordered(candidate.row, candidate.order)

    def _is_fit(self, row: Algorithm, order: str) -> bool:
        """Whether ranks can run a variant in an order, which may change the bits."""
        if row.unfit is fits:  # the order does not matter
            return row.obstacle(self.size) is None
        return self._ordered(row, order).obstacle(self.size) is None

    def _ordered(self, row: Algorithm, order_name: str) -> Algorithm:
        """An algorithm in an order of the topology, by the numbers of the ranks."""
        if not order_name:
            return row
        number = {place: rank for rank, place in enumerate(self.placement.places)}
        places = self.ground.sites[order_name].places
        order = along([number[place] for place in places], self.size)
        return row.with_parameters({"order": tuple(order)})

    def price_one(self, row: Algorithm) -> list[Priced]:
        """An algorithm as it stands, with its price."""
        return [one.priced for one in self._glimpsed([(row, "")])]

    @property
    def world(self) -> World:
        """What the model of NCCL asks of the machine."""
        return self.ground.world

    def choices(self, collective: str, reproducible: bool = False) -> Choices:
        """From which size on which algorithm is the cheapest."""
        able, _ = self.applicable(collective, reproducible)
        if not able:
            raise nobody(collective, self.size)
        return Choices(self.prune(able, SIZES))

    def _glimpsed(self, tried: Sequence[tuple[Algorithm, str]]) -> list[LazyCandidate]:
        """Algorithms in orders of the ranks, by what rank 0 does at first in each."""
        found: dict[tuple[Algorithm, str], LazyCandidate] = {}
        for order in {order for _, order in tried}:
            site = self.ground.sites[order] if order else self.placement
            rows = [row for row, where in tried if where == order]
            glimpses = [self._traces(row).beginning for row in rows]
            least = site.least(glimpses, [_segments(row) for row in rows])
            for row, line in zip(rows, least, strict=True):
                found[row, order] = self._prospective(row, order, site, line)
        return [found[one] for one in tried]

    def _prospective(
        self, row: Algorithm, order: str, site: Placement, least: Line
    ) -> LazyCandidate:
        """A candidate, priced over the bytes of a buffer."""
        buffers = COLLECTIVES[row.collective].buffers(self.size)
        floor = self._floor(row.collective)

        def estimates() -> Iterator[Line]:
            for line in self._least(row, site):
                yield line.over(buffers).at_least(floor)
            whole = site.rounds(self._traces(row).folded, _segments(row))
            yield whole.line.over(buffers)

        return LazyCandidate(row, order, least.over(buffers).at_least(floor), estimates)

    def _floor(self, collective: str) -> float:
        """Seconds for each byte of a buffer that every schedule takes at least."""
        if collective not in self._floors:
            cluster, figures = self.placement.cluster, self.placement.figures
            self._floors[collective] = (
                through_ports(collective, cluster, figures) if cluster else 0.0
            )
        return self._floors[collective]

    def _least(self, row: Algorithm, site: Placement) -> Iterator[Line]:
        """What an algorithm costs at least, by what ever more ranks do.

        That is rank 0, of which a few steps are known, then the first host if that is
        soon done or no two ranks do the same, then the first ranks of the others, too.
        Of ranks that send much twice as many are looked at each time.
        """
        traces, host = self._traces(row), self.placement.hosts[0]

        def line(ranks: Sequence[int]) -> Line:
            return site.least([traces.partial_trace(ranks)], [_segments(row)])[0]

        goes_on = traces.beginning.steps == FEW
        if goes_on:
            yield line(range(1))
        if host == self.size:
            return
        if not goes_on or not any(traces.symmetry.turns):
            ranks = 2 if len(traces.of(range(1), few=not goes_on).step) > MUCH else host
            while ranks < host:
                yield line(range(ranks))
                ranks *= 2
            yield line(range(host))
        if not any(traces.symmetry.turns):
            yield line([*range(host), *range(host, self.size, host)])

    def _traces(self, row: Algorithm) -> Traces:
        """What the ranks do, whatever the segments."""
        given = dict(row.parameters)
        given.pop("segments", None)
        whole = row._replace(name="", parameters=tuple(given.items()), unproved=True)
        return _traces(whole, self.size, tuple(grids_of(whole, *self.placement.grid)))


def _segments(row: Algorithm) -> int:
    """In how many parts an algorithm runs, each a step after the one before."""
    segments: int = dict(row.parameters).get("segments", 1)
    return segments


@lru_cache(maxsize=512)
def _traces(row: Algorithm, size: int, grids: tuple[tuple[int, ...], ...]) -> Traces:
    return Traces(row.schedule, size, grids)
