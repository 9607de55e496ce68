"""Candidates for ranks on a topology: all algorithms, in several orders of ranks."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm, candidates, find
from collalgo.algorithms.ring import along
from collalgo.algorithms.row import fits
from collalgo.base.cache import computing
from collalgo.cost.bounds import Bound, bound_of
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.selection.applicability import (
    applicable,
    is_right_in_its_order,
    no_applicable_algorithm,
    obstacle_to,
)
from collalgo.selection.features import TopologyFeatures
from collalgo.selection.first_choices import first_choices
from collalgo.selection.kept_choices import kept
from collalgo.selection.lazy_prices import LazyPrices
from collalgo.selection.policies.nccl import World
from collalgo.selection.pricer import Ordered, TableCache, Value
from collalgo.selection.prices import (
    Break,
    ByPrice,
    Choices,
    Curve,
    LazyCandidate,
    LazyCurve,
    Priced,
    breaks,
    cheapest,
    prune,
)
from collalgo.selection.synthesis_candidates import SynthesisCandidates
from collalgo.selection.variants import variants, without_twins
from collalgo.synthesis import kept_proofs
from collalgo.synthesis.planner import Planner
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED
from collalgo.topology.assumed import assumptions
from collalgo.topology.model import Topology
from collalgo.topology.places import ranks_of

#: The most matrices of bytes whose prices are kept: each has megabytes of plans.
MOST_MATRICES = 8


class TopologyPricer:
    """The prices of all candidates on a topology, each computed once for all sizes.

    Parameters
    ----------
    topology, devices, link_model
        As of :class:`~collalgo.cost.placement.Placement`.

    Attributes
    ----------
    of_matrices : TableCache
        The prices of the same ranks for some matrices of bytes.
    """

    def __init__(
        self,
        topology: Topology | UniformCluster,
        link_model: LinkModel = DEFAULTS,
        devices: Sequence[str] = (),
    ):
        self.placement = Placement(topology, devices, link_model)
        self.topology = self.placement.machine
        self.features = TopologyFeatures(self.placement)
        self._computed, self.of_matrices = TableCache(), TableCache(MOST_MATRICES)
        self._bounds: dict[str, Bound | None] = {}
        self._candidates: dict[Algorithm, list[LazyCandidate]] = {}
        self._prices = LazyPrices(self.placement, self.features)
        self._synthesis = SynthesisCandidates(self.placement)

    @property
    def basis(self) -> str:
        """The links that the prices are made of."""
        return f"the links of {self.topology.name}, in rounds"

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions on the links between the ranks, each rule once."""
        if isinstance(self.topology, UniformCluster):
            return assumptions(self.topology.pair, ranks_of(self.topology.pair))
        return assumptions(self.topology, self.placement.devices)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.placement.size

    def correction(self, _: str, __: float) -> float:
        """1: nothing is measured."""
        return 1.0

    def applicable(
        self, collective: str, reproducible: bool = False
    ) -> tuple[list[Algorithm], dict[Algorithm, str]]:
        """The algorithms that can run, and the obstacles of the others."""
        obstacle = partial(self._obstacle, reproducible=reproducible)
        rows = [*candidates(collective), *self._synthesis.rows(collective)]
        return applicable(rows, obstacle)

    def _obstacle(self, row: Algorithm, *, reproducible: bool) -> str | None:
        """The obstacle of an algorithm, or None."""
        no_schedule = obstacle_to(row, self.size, reproducible)
        return no_schedule or self._prices.obstacle(row)

    def find(self, collective: str, name: str) -> Algorithm:
        """The row of a name, of the catalogue or synthesised for the topology."""
        row = self._synthesis.named(collective, name)
        return row or find(collective, name, self.size)

    def priced(self, rows: Iterable[Algorithm]) -> list[Priced]:
        """All variants and orders of some algorithms, with their prices."""
        with computing:
            return [one.priced for one in self.candidates(rows)]

    def by_price(self, rows: Iterable[Algorithm], nbytes: int) -> ByPrice:
        """All variants and orders of some algorithms by their prices."""
        with computing:
            return ByPrice(self.candidates(rows), nbytes)

    def prune(self, rows: Iterable[Algorithm], sizes: Reals) -> list[Priced]:
        """The candidates that are the cheapest for some sizes, and maybe others."""
        with computing:
            return prune(self._distinct(rows), sizes)

    def _distinct(self, rows: Iterable[Algorithm]) -> list[LazyCandidate]:
        """All useful candidates of some algorithms that differ."""
        return self.candidates(without_twins(rows, self.size, self.features.cycles))

    def candidates(self, rows: Iterable[Algorithm]) -> list[LazyCandidate]:
        """All useful variants and orders of some algorithms."""
        rows = list(rows)
        missing = [row for row in rows if row not in self._candidates]
        planned = [row for row in missing if row.base_name == SYNTHESIZED]
        self._candidates |= {row: self._synthesis.of(row) for row in planned}
        self._try([row for row in missing if row not in planned])
        return [one for row in rows for one in self._candidates[row]]

    def _try(self, rows: Sequence[Algorithm]) -> None:
        """Find the candidates of some rows."""
        hosts, features = self.placement.hosts, self.features
        tried = [
            (row, variant, order)
            for row in rows
            for variant in variants(row, hosts, features.cycles, features.axes)
            for order in self._orders(variant)
            if self._is_fit(variant, order)
        ]
        fresh: dict[Algorithm, list[LazyCandidate]] = {row: [] for row in rows}
        lazy = self._prices.of([one[1:] for one in tried])
        for (row, _, _), one in zip(tried, lazy, strict=True):
            fresh[row].append(one)
        self._candidates |= fresh

    def _orders(self, row: Algorithm) -> Iterable[str]:
        """The useful orders for a variant.

        Where the number of a rank has a meaning, as for a root, that is the order of
        the numbers; cycles have an order of their own.
        """
        collective = COLLECTIVES[row.collective]
        if collective.rooted or collective.prefix:
            return [""]
        if "cycles" in dict(row.parameters):
            return [self.features.along]
        return self.features.placements

    def bound(self, collective: str) -> Bound | None:
        """The lower bound of a collective, computed once; None if not known."""
        if collective not in self._bounds:
            model, found = self.placement.link_model, None
            if self._has_all_ranks:
                found = bound_of(collective, self.topology, link_model=model)
            self._bounds[collective] = found
        return self._bounds[collective]

    @property
    def _has_all_ranks(self) -> bool:
        """Whether all places of the machine have a rank."""
        return isinstance(self.topology, UniformCluster) or (
            {*self.placement.devices} == {*ranks_of(self.topology)}
        )

    @property
    def planner(self) -> Planner:
        """The plans for these ranks."""
        return self._synthesis.planner

    @property
    def _identity(self) -> str:
        """All inputs of the prices, except the schedules."""
        return self.placement.digest

    def runnable(self, candidate: Ordered) -> Algorithm:
        """A candidate as ranks run it, in the order that it was priced in."""
        return self.in_order(candidate.row, candidate.order)

    def _is_fit(self, row: Algorithm, order: str) -> bool:
        """Whether ranks can run a variant in an order, which may change the bits."""
        if row.unfit is fits and row.of_library:  # the order does not matter
            return row.obstacle(self.size) is None
        one = self.in_order(row, order)
        return not one.obstacle(self.size) and is_right_in_its_order(one, self.size)

    def in_order(self, row: Algorithm, order_name: str) -> Algorithm:
        """An algorithm in an order of the topology, by the numbers of the ranks."""
        if not order_name:
            return row
        number = {device: rank for rank, device in enumerate(self.placement.devices)}
        devices = self.features.placements[order_name].devices
        order = along([number[device] for device in devices], self.size)
        return row.with_parameters({"order": tuple(order)})

    def prove(self, row: Algorithm, schedule: ScheduleFunction, root: int) -> None:
        """Prove the schedule of a row before its first run, a plan only once."""
        kept_proofs.prove(row, schedule, self.size, root)

    def price_one(self, row: Algorithm, order: str = "") -> Priced:
        """An algorithm with exactly its parameters, priced when the price is read."""

        def price() -> Curve:
            with computing:
                if row.base_name == SYNTHESIZED:
                    return self._synthesis.of(row)[0].priced.price
                return self._prices.of([(row, order)])[0].priced.price

        return Priced(row, LazyCurve(price), order)

    @property
    def world(self) -> World:
        """The parameters of NCCL's tuning model."""
        return self.features.world

    def computed(
        self, key: Hashable, rows: list[Algorithm], compute: Callable[[], Value]
    ) -> Value:
        """Results from the prices of these ranks, computed once."""
        return self._computed.get(key, rows, compute)

    def choices(
        self, collective: str, reproducible: bool = False, only: int | None = None
    ) -> Choices:
        """The choice among all algorithms, by size; computed once."""
        asked = collective, reproducible, only
        return self.computed(asked, ALGORITHMS, partial(self._cheapest, *asked))

    def private_copy(self) -> "TopologyPricer":
        """The same ranks, with prices that no other thread computes or shares."""
        placed = self.placement
        return TopologyPricer(placed.machine, placed.link_model, placed.devices)

    def first_choices(
        self, collective: str, reproducible: bool
    ) -> tuple[Choices, float]:
        """The choices by formulas, and the size from which the price decides."""
        rows, limit = first_choices(collective, self.placement, reproducible)
        return Choices([Break(at, self.price_one(row)) for at, row in rows]), limit

    def choices_among(
        self, rows: Sequence[Algorithm], only: int | None = None
    ) -> Choices:
        """The choice among the variants of some algorithms, by size; computed once."""
        key = tuple((row.collective, row.name) for row in rows), only

        def compute() -> Choices:
            found = cheapest(self._distinct(rows), only)
            return Choices(found or breaks([self.price_one(row) for row in rows]))

        return self.computed(key, list(rows), compute)

    def _cheapest(
        self, collective: str, reproducible: bool, only: int | None
    ) -> Choices:
        able, _ = self.applicable(collective, reproducible)

        def compute() -> Choices:
            if not (found := cheapest(self._distinct(able), only)):
                raise no_applicable_algorithm(collective, self.size)
            return Choices(found)

        rows = [row for row in able if row not in self._synthesis.rows(collective)]
        return kept(self._identity, rows, self.find, self._revived, compute, only)

    def _revived(self, row: Algorithm, order: str) -> Priced:
        """A kept candidate, whose order the ranks have."""
        if order and order not in self.features.placements:
            raise ValueError(order)
        return self.price_one(row, order)
