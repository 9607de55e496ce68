"""Candidates for ranks of one host: the price of each by the figures of the machine."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from collalgo.algorithms import Algorithm, candidates
from collalgo.cost.copying import Copying
from collalgo.cost.host import Price
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule import ScheduleFunction, trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.selection.prices import Choices, Priced, applicable
from collalgo.selection.selection import nobody, obstacle_to

#: Prices that differ by no more than these parts of them are taken for the same, and
#: for similar: what they are made of is not known better.
ALIKE, SIMILAR = 0.001, 0.03


class OfOneRank(NamedTuple):
    """A price over the bytes of one rank's buffer, of which there are several."""

    price: Price
    copying: Copying

    def seconds(self, nbytes: Reals) -> Reals:
        """The prices of an array of numbers of bytes."""
        nbytes = np.asarray(nbytes, np.float64)
        whole = nbytes * COLLECTIVES[self.copying.collective].buffers(self.price.size)
        in_waves = self.price.seconds(whole)
        at_once = self.copying.is_at_once(nbytes)
        if not np.any(at_once):
            return in_waves
        return np.where(at_once, self.price.seconds(whole, 1), in_waves)


class HostPricer(NamedTuple):
    """Ranks on one host, and the prices of all candidates by its figures."""

    size: int
    machine: HostProfile

    @property
    def world(self) -> None:
        """Nothing that NCCL has an opinion of."""

    def bound(self, collective: str) -> None:
        """No bound is known."""

    @property
    def basis(self) -> str:
        """What the prices are made of."""
        machine = self.machine
        return (
            f"{machine.latency * 1e6:.2f} us a hand-over between cores, "
            f"{machine.switch * 1e6:.2f} us on one core, "
            f"{machine.message * 1e6:.2f} us a message, copies of "
            f"{1e-9 / machine.copy:.1f} GB/s, reductions of "
            f"{1e-9 / machine.reduce:.1f} GB/s, {machine.cores} cores"
        )

    def applicable(
        self, collective: str, reproducible: bool = False
    ) -> tuple[list[Algorithm], dict[Algorithm, str]]:
        """The algorithms that can run, and why the others cannot."""

        def obstacle(row: Algorithm) -> str | None:
            if row.hierarchical:
                return "for several hosts, and the ranks are on one"
            return obstacle_to(row, self.size, reproducible)

        return applicable(candidates(collective), obstacle)

    def priced(self, rows: Iterable[Algorithm]) -> list[Priced]:
        """All candidates that some algorithms are, with their prices."""
        return [one for row in rows for one in self.price_one(row)]

    def prune(self, rows: Iterable[Algorithm], _: Reals) -> list[Priced]:
        """The candidates that are the cheapest for some sizes, and others."""
        return self.priced(rows)

    def choices(self, collective: str, reproducible: bool = False) -> Choices:
        """From which size on which algorithm is the cheapest."""
        return choices(collective, self.size, self.machine, reproducible)

    def runnable(self, candidate: Priced) -> Algorithm:
        """A candidate as ranks can run it."""
        return candidate.row

    def price_one(self, row: Algorithm) -> list[Priced]:
        """An algorithm as it stands, with its price."""
        copying = Copying(row.collective, self.size, self.machine)
        cost = price(row.schedule, self.size, self.machine)
        work = round(cost.reduced, 6)
        return [Priced(row, OfOneRank(cost, copying), work=work)]


def choices(
    collective: str, size: int, machine: HostProfile, reproducible: bool = False
) -> Choices:
    """From which size on which algorithm is the cheapest; computed once.

    All ranks with the same figures of the machine have the same.
    """
    return _choices(tuple(candidates(collective)), size, machine, reproducible)


@lru_cache(maxsize=256)
def _choices(
    rows: tuple[Algorithm, ...], size: int, machine: HostProfile, reproducible: bool
) -> Choices:
    collective = rows[0].collective
    host = HostPricer(size, machine)
    able, _ = host.applicable(collective, reproducible)
    if not able:
        raise nobody(collective, size)
    return Choices(host.priced(able), ALIKE, SIMILAR)


def predicted(row: Algorithm, size: int, nbytes: int, machine: HostProfile) -> float:
    """The price of an algorithm in seconds."""
    cost = price(row.schedule, size, machine)
    whole = OfOneRank(cost, Copying(row.collective, size, machine))
    return float(whole.seconds(np.asarray(nbytes)))


@lru_cache(maxsize=4096)
def price(schedule: ScheduleFunction, size: int, machine: HostProfile) -> Price:
    """The price of a schedule, from its steps on all ranks."""
    return Price([trace(schedule, rank, size) for rank in range(size)], machine)
