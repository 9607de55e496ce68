"""Prices for ranks that come late to a call, from the arrival of the last one on."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm
from collalgo.cost.bounds import Bound
from collalgo.cost.late_ranks import LatePrice, described, last_of
from collalgo.cost.placement_bounds import placement_bound
from collalgo.cost.rounds import Line
from collalgo.schedule import begin
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.pricer import TableCache
from collalgo.selection.prices import Choices, Curve, LazyCandidate, LazyCurve, Priced
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED, form_of

#: The numbers of blocks of algorithms for a late rank.
BLOCKS = (4, 8, 16, 32, 64, 256, 512)


def late_pricer(of: TopologyPricer, late: Mapping[int, float]) -> "LatePricer":
    """The prices of the ranks of a pricer, some of them late; kept with the others."""
    key = "late", *sorted(late.items())
    return of.computed(key, ALGORITHMS, partial(LatePricer, of, late))


class Earlier(NamedTuple):
    """A price from some seconds after the begin on.

    Attributes
    ----------
    price : Curve
        The price from the begin on.
    by : float
        The seconds.
    """

    price: Curve
    by: float

    @property
    def caveat(self) -> str:
        """The caveat of the price."""
        return self.price.caveat

    def seconds(self, nbytes: Any) -> Any:
        """The prices of an array of numbers of bytes."""
        return np.maximum(self.price.seconds(nbytes) - self.by, 0.0)


class LatePricer(TopologyPricer):
    """The prices of all candidates for a call to which ranks come late.

    Algorithms for a late rank are candidates, too.

    Parameters
    ----------
    of
        The prices of the same ranks on time.
    late
        The seconds by which each late rank comes late.
    """

    def __init__(self, of: TopologyPricer, late: Mapping[int, float]):
        vars(self).update(vars(of))  # the prices of ranks on time are the same
        self._computed = TableCache()
        self.late, self.last, self._of = late, last_of(late), of
        self._late: dict[tuple[Algorithm, str], LazyCandidate] = {}

    @property
    def basis(self) -> str:
        """The links that the prices are made of, and the late ranks."""
        return f"{super().basis}; {described(self.late)}"

    @property
    def _identity(self) -> str:
        return f"{super()._identity} late {sorted(self.late.items())}"

    def bound(self, collective: str) -> Bound | None:
        """The lower bound from the arrival of the last rank on, of an allreduce."""
        found = partial(placement_bound, collective, self.placement, 0, self.late)
        return self.computed(("bound", collective), [], found)

    def _obstacle(self, row: Algorithm, *, reproducible: bool) -> str | None:
        """The obstacle of an algorithm; none for being one for a late rank."""
        return super()._obstacle(row._replace(by_name=False), reproducible=reproducible)

    def candidates(self, rows: Iterable[Algorithm]) -> list[LazyCandidate]:
        """All useful variants and orders of some algorithms, with late prices."""
        rows = list(rows)
        found = [one for row in rows if row.by_name for one in self._of_late(row)]
        others = [row for row in rows if not row.by_name]
        return [*found, *map(self._late_candidate, super().candidates(others))]

    def _of_late(self, row: Algorithm) -> Iterator[LazyCandidate]:
        """An algorithm for the last rank, in some numbers of blocks by default."""
        known = [{"late": self.last, "blocks": blocks} for blocks in BLOCKS]
        for variant in [row] if row.parameters else map(row.with_parameters, known):
            price = partial(self._priced_late, variant, "")
            yield LazyCandidate(variant, "", Line(0.0, 0.0), price)

    def _late_candidate(self, on_time: LazyCandidate) -> LazyCandidate:
        """A candidate with its late price.

        Where the last rank takes part in the first step, it is the price on time.
        """
        key = row, order = on_time.row, on_time.order
        if key not in self._late:
            found = on_time
            if row.base_name == SYNTHESIZED:
                refine = partial(self._refined, on_time)
                found = LazyCandidate(row, order, self._least(on_time), refine)
            elif self._waits(row, order):
                price = partial(self._priced_late, row, order)
                found = LazyCandidate(row, order, Line(0.0, 0.0), price)
            self._late[key] = found
        return self._late[key]

    def _waits(self, row: Algorithm, order: str) -> bool:
        """Whether the last rank does nothing in the first step of an algorithm."""
        schedule = self.in_order(row, order).schedule
        return not next(begin(schedule, self.last, self.size), ())

    def _refined(self, on_time: LazyCandidate) -> Iterator[Curve]:
        """Lower bounds by the price on time, and then the late price."""
        while not on_time.known:
            on_time.improve()
            yield self._least(on_time)
        yield self._late_price(on_time.row, on_time.order)

    def _least(self, on_time: LazyCandidate) -> "Earlier":
        """The bound if the other ranks wait for none: they begin before the last."""
        return Earlier(on_time.least, self.late[self.last])

    def _priced_late(self, row: Algorithm, order: str) -> Iterator[Curve]:
        yield self._late_price(row, order)

    def _late_price(self, row: Algorithm, order: str) -> LatePrice:
        """The late price of an algorithm in an order of ranks."""
        if row.base_name == SYNTHESIZED:
            messages = self.planner.messages(row.collective, form_of(row))
        else:
            schedule = self.in_order(row, order).schedule
            messages = self.placement.messages(schedule)
        buffers = COLLECTIVES[row.collective].buffers(self.size)
        return LatePrice(self.placement, messages, self.late, buffers)

    def price_one(self, row: Algorithm, order: str = "") -> Priced:
        """An algorithm with exactly its parameters, priced when the price is read."""
        return Priced(row, LazyCurve(partial(self._late_price, row, order)), order)

    def first_choices(
        self, _collective: str, _reproducible: bool
    ) -> tuple[Choices, float]:
        """No choices by formulas: they know no late ranks."""
        return Choices([]), 0.0

    def private_copy(self) -> "LatePricer":
        """The same ranks, with prices that no other thread computes or shares."""
        return LatePricer(self._of.private_copy(), self.late)
