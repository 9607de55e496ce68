"""Candidates for ranks of one host: the price of each by the figures of the machine."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collalgo.algorithms import Algorithm, candidates
from collalgo.collective import COLLECTIVES
from collalgo.cost.host import Price
from collalgo.errors import CollalgoError
from collalgo.machine import Machine
from collalgo.schedule import ScheduleFunction, trace
from collalgo.selection.prices import Choices, Priced
from collalgo.selection.selection import NOT_SERIAL, nobody
from collalgo.transfers import Reals
from collalgo.verify import prove_once


class OfOneRank(NamedTuple):
    """A price over the bytes of one rank's buffer, of which there are several."""

    price: Price
    buffers: int

    def seconds(self, nbytes: Reals) -> Reals:
        """The prices of an array of numbers of bytes."""
        return self.price.seconds(nbytes * self.buffers)


def priced(
    rows: Sequence[Algorithm], size: int, machine: Machine, reproducible: bool
) -> tuple[list[Priced], dict[Algorithm, str]]:
    """The rows that can run with their prices, and why the others cannot."""
    able: list[Priced] = []
    unable: dict[Algorithm, str] = {}
    for row in rows:
        if obstacle := _obstacle(row, size, reproducible):
            unable[row] = obstacle
        else:
            buffers = COLLECTIVES[row.collective].buffers(size)
            cost = price(row.schedule, size, machine)
            able.append(Priced(row, OfOneRank(cost, buffers)))
    return able, unable


def choices(
    collective: str, size: int, machine: Machine, reproducible: bool = False
) -> Choices:
    """From which size on which algorithm is the cheapest; computed once.

    All ranks with the same figures of the machine have the same.
    """
    return _choices(tuple(candidates(collective)), size, machine, reproducible)


@lru_cache(maxsize=256)
def _choices(
    rows: tuple[Algorithm, ...], size: int, machine: Machine, reproducible: bool
) -> Choices:
    able, _ = priced(rows, size, machine, reproducible)
    if not able:
        raise nobody(rows[0].collective, size)
    return Choices(able)


def _obstacle(row: Algorithm, size: int, reproducible: bool) -> str | None:
    """Why an algorithm is not to be chosen, or None."""
    if reproducible and not row.serial:
        return NOT_SERIAL
    if row.levels:
        return "for several hosts, and the ranks are on one"
    if row.unproved:
        try:
            prove_once(row.schedule, size, row.collective)
        except CollalgoError as error:
            return f"is wrong: {error}"
    return row.obstacle(size)


def basis(machine: Machine) -> str:
    """What the prices are made of, in words."""
    return (
        f"{machine.latency * 1e6:.2f} us a hand-over between cores, "
        f"{machine.switch * 1e6:.2f} us on one core, {machine.message * 1e6:.2f} us a "
        f"message, copies of {1e-9 / machine.copy:.1f} GB/s, reductions of "
        f"{1e-9 / machine.reduce:.1f} GB/s, {machine.cores} cores"
    )


def predicted(row: Algorithm, size: int, nbytes: int, machine: Machine) -> float:
    """The price of an algorithm in seconds."""
    buffers = COLLECTIVES[row.collective].buffers(size)
    return float(price(row.schedule, size, machine).seconds(nbytes * buffers))


@lru_cache(maxsize=4096)
def price(schedule: ScheduleFunction, size: int, machine: Machine) -> Price:
    """The price of a schedule, from its steps on all ranks."""
    return Price([trace(schedule, rank, size) for rank in range(size)], machine)
