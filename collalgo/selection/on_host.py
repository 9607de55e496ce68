"""The prices of all algorithms for ranks on one host, by its profile."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm, candidates, find
from collalgo.algorithms.first_use import prove_once
from collalgo.base.cache import computing
from collalgo.base.units import counted
from collalgo.cost.copy_policy import CopyPolicy
from collalgo.cost.corrections import known
from collalgo.cost.distance import distance
from collalgo.cost.host_price import HostPrice
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.sampled_price import ALL_RANKS, FEW_RANKS, SampledPrice, chain_of
from collalgo.schedule import ScheduleFunction, trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.selection.applicability import (
    applicable,
    no_applicable_algorithm,
    obstacle_to,
)
from collalgo.selection.kept_choices import kept
from collalgo.selection.pricer import Ordered, TableCache, Value
from collalgo.selection.prices import (
    ROUGHLY,
    ByPrice,
    Choices,
    LazyCandidate,
    LazyCurve,
    Priced,
    breaks,
)

#: The most ranks on one host that algorithms are priced for, which takes minutes.
MOST_RANKS = 1024

#: The relative differences up to which prices count as equal, and as similar: the host
#: profile is not more precise.
ALIKE, SIMILAR = 0.001, 0.03


class OfOneRank(NamedTuple):
    """A price over the bytes of one rank's buffer; a schedule's is over all buffers."""

    price: HostPrice | SampledPrice
    copying: CopyPolicy

    @property
    def caveat(self) -> str:
        """That prices are the least if ranks share cores."""
        return ROUGHLY if self.price.crowded else ""

    def seconds(self, nbytes: Reals) -> Reals:
        """The prices of an array of numbers of bytes."""
        nbytes = np.asarray(nbytes, np.float64)
        whole = nbytes * COLLECTIVES[self.copying.collective].buffers(self.price.size)
        sliced = self.price.seconds(whole)
        at_once = self.copying.is_at_once(nbytes)
        if not np.any(at_once):
            return sliced
        return np.where(at_once, self.price.seconds(whole, 1), sliced)


class HostPricer(NamedTuple):
    """Ranks on one host, and the prices of all algorithms by its profile."""

    size: int
    host_profile: HostProfile

    @property
    def world(self) -> None:
        """None: NCCL's tuning model needs a topology."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """None: the figures of a host are measured."""
        return ()

    def bound(self, collective: str) -> None:
        """None: no bound is known on a host."""

    def correction(self, collective: str, nbytes: float) -> float:
        """The measured over the predicted times of a collective; 1 if not known."""
        found = known(self.host_profile)
        return found.factor(collective, self.size, nbytes, self._distance)

    @property
    def _distance(self) -> float:
        """The distance of the cores at the moment; 0 if it makes no difference.

        It takes milliseconds to measure, so that only printed prices need it: choices
        do not depend on corrections.
        """
        return distance() if len(known(self.host_profile).distances) > 1 else 0.0

    @property
    def basis(self) -> str:
        """The figures that the prices are made of."""
        profile = self.host_profile
        return (
            "the host profile: "
            f"{profile.latency * 1e6:.2f} us core-to-core handoff, "
            f"{profile.switch * 1e6:.2f} us between ranks of one core, "
            f"{profile.message * 1e6:.2f} us a message, copies of "
            f"{1e-9 / profile.copy:.1f} GB/s, reductions of "
            f"{1e-9 / profile.reduce:.1f} GB/s, "
            f"{counted(profile.cores, 'core')}{self._shared}{self._corrected}"
        )

    @property
    def _corrected(self) -> str:
        """Whether collectives were measured, too."""
        if not known(self.host_profile).ratios:
            return ""
        apart = self._distance
        now = f" at a handoff of {apart * 1e6:.2f} us, as now" if apart else ""
        return f"; corrected by measured collectives{now}"

    @property
    def _shared(self) -> str:
        """The caveat of prices if ranks share cores."""
        if self.size <= self.host_profile.cores:
            return ""
        return (
            f" shared by {self.size} ranks, so times vary by a factor of two with the "
            "scheduling of the kernel"
        )

    def applicable(
        self, collective: str, reproducible: bool = False
    ) -> tuple[list[Algorithm], dict[Algorithm, str]]:
        """The algorithms that can run, and the obstacles of the others."""

        def obstacle(row: Algorithm) -> str | None:
            if row.hierarchical:
                return "for several hosts, and the ranks are on one"
            return obstacle_to(row, self.size, reproducible)

        return applicable(candidates(collective), obstacle)

    def find(self, collective: str, name: str) -> Algorithm:
        """The row of a name, which may give parameters."""
        return find(collective, name, self.size)

    def priced(self, rows: Iterable[Algorithm]) -> list[Priced]:
        """The algorithms with their prices; each has one variant on a host."""
        return [self._priced(row) for row in rows]

    def by_price(self, rows: Iterable[Algorithm], nbytes: int) -> ByPrice:
        """The algorithms in ascending order of their prices."""
        found = [
            LazyCandidate(one.row, one.order, one.price, lambda: iter(()))
            for one in self.priced(rows)
        ]
        return ByPrice(found, nbytes)

    def computed(
        self, key: Hashable, rows: list[Algorithm], compute: Callable[[], Value]
    ) -> Value:
        """Results from the prices of such ranks, computed once in a process."""
        return _COMPUTED.get((self, key), rows, compute)

    def choices(
        self, collective: str, reproducible: bool = False, _only: int | None = None
    ) -> Choices:
        """The choice among all algorithms, by size; computed once in a process."""
        compute = partial(self._choices, collective, reproducible)
        return self.computed((collective, reproducible), ALGORITHMS, compute)

    def private_copy(self) -> "HostPricer":
        """The same: its prices are shared by value."""
        return self

    def first_choices(self, _: str, __: bool) -> tuple[Choices, float]:
        """None: the prices of a host are known soon."""
        return Choices([]), 0.0

    def choices_among(
        self, rows: Sequence[Algorithm], _only: int | None = None
    ) -> Choices:
        """The choice among some algorithms, by size."""
        if len(rows) == 1:
            return Choices(breaks([self.price_one(rows[0])]))
        return self._among(rows)

    def _among(self, rows: Sequence[Algorithm]) -> Choices:
        return Choices(breaks(self.priced(rows), ALIKE, self.similar))

    @property
    def similar(self) -> float:
        """The relative difference up to which the least work decides.

        It is 0 where ranks share cores: the price counts the work of all already.
        """
        return 0.0 if self.size > self.host_profile.cores else SIMILAR

    def _choices(self, collective: str, reproducible: bool) -> Choices:
        def compute() -> Choices:
            able, _ = self.applicable(collective, reproducible)
            if not able:
                raise no_applicable_algorithm(collective, self.size)
            return self._among(able)

        return kept(
            repr((self.size, reproducible, self.host_profile)),
            candidates(collective),
            self.find,
            self._revived,
            compute,
        )

    def _revived(self, row: Algorithm, order: str) -> Priced:
        """A kept candidate; on a host there are no orders."""
        if order:
            raise ValueError(order)
        return self.price_one(row)

    def runnable(self, candidate: Ordered) -> Algorithm:
        """The algorithm of a candidate: on a host all orders of ranks are alike."""
        return candidate.row

    def prove(self, row: Algorithm, schedule: ScheduleFunction, root: int) -> None:
        """Prove the schedule of a row before its first run."""
        prove_once(schedule, self.size, row.collective, root)

    def price_one(self, row: Algorithm) -> Priced:
        """An algorithm with exactly its parameters, priced when the price is read."""
        return Priced(row, LazyCurve(lambda: self._priced(row).price))

    def _priced(self, row: Algorithm) -> Priced:
        copying = CopyPolicy(row.collective, self.size, self.host_profile)
        cost: HostPrice | SampledPrice
        many = self.size > max(ALL_RANKS, self.host_profile.cores)
        if many and not any(map(row.obstacle, FEW_RANKS)):
            cost = sampled(row.schedule, self.size, self.host_profile)
        else:
            cost = price(row.schedule, self.size, self.host_profile)
        return Priced(row, OfOneRank(cost, copying), work=round(cost.reduced, 6))


#: The results that all threads and communicators of the process share.
_COMPUTED = TableCache()


def price(schedule: ScheduleFunction, size: int, profile: HostProfile) -> HostPrice:
    """The price of a schedule, from its steps on all ranks; computed once.

    Ranks that are threads ask for it at the same time.
    """
    with computing:
        return _price(schedule, size, profile)


def sampled(
    schedule: ScheduleFunction, size: int, profile: HostProfile
) -> SampledPrice:
    """The price of a schedule, estimated from some ranks' steps; computed once."""
    with computing:
        return _sampled(schedule, size, profile)


@lru_cache(maxsize=4096)
def _price(schedule: ScheduleFunction, size: int, profile: HostProfile) -> HostPrice:
    return HostPrice([trace(schedule, rank, size) for rank in range(size)], profile)


@lru_cache(maxsize=4096)
def _sampled(
    schedule: ScheduleFunction, size: int, profile: HostProfile
) -> SampledPrice:
    chains = [
        chain_of(price(schedule, few, profile._replace(cores=few))) for few in FEW_RANKS
    ]
    return SampledPrice(lambda rank: trace(schedule, rank, size), size, profile, chains)
