"""Choices by the formulas of the literature, for calls that do not wait for prices.

By Hockney's model a call of ``n`` bytes takes ``rounds * alpha + volume * n * beta``.
To evaluate formulas takes a hundredth of the time to price schedules on a topology.
They know no links, so they decide only on calls that are over soon.
"""

from functools import cache
from math import inf
from types import CodeType
from typing import NamedTuple

from collalgo.algorithms.catalogue import Algorithm, candidates
from collalgo.algorithms.literature import FORMULAS, Formula, values_at
from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.selection.applicability import obstacle_to
from collalgo.topology.model import LinkKind
from collalgo.topology.path_types import PathType

#: The longest time of a call by its formula, in seconds; a longer one waits for prices.
LONGEST = 0.1


class Line(NamedTuple):
    """The time of an algorithm: some seconds, and some for each byte of a buffer."""

    seconds: float
    per_byte: float
    row: Algorithm

    def meets(self, other: "Line") -> float:
        """The size from which on another line with less for each byte is below."""
        if other.per_byte >= self.per_byte:
            return inf
        return (other.seconds - self.seconds) / (self.per_byte - other.per_byte)


class FirstChoices(NamedTuple):
    """The algorithms from some sizes on, and the size from which prices decide."""

    rows: list[tuple[float, Algorithm]]
    limit: float


def first_choices(
    collective: str, placement: Placement, reproducible: bool
) -> FirstChoices:
    """The choices by formulas for ranks on several hosts; none for some collectives."""
    found: list[tuple[float, Algorithm]] = []
    lines = _lines(collective, placement, reproducible)
    if not lines:
        return FirstChoices(found, 0.0)
    nbytes, line = 0.0, min(lines, key=lambda line: line[:2])
    while True:
        found.append((nbytes, line.row))
        limit = (LONGEST - line.seconds) / line.per_byte if line.per_byte else inf
        meets = line.meets
        below = min(lines, key=lambda other: (meets(other), other.per_byte))
        nbytes, line = meets(below), below
        if limit <= nbytes:
            return FirstChoices(found, max(limit, 0.0))


def _lines(collective: str, placement: Placement, reproducible: bool) -> list[Line]:
    """The lines of all algorithms that can run and whose formulas are exact."""
    alpha = placement.link_model.latency[PathType.NET]
    beta = max(placement.hosts) / _least_bandwidth(placement)
    found = []
    for row in candidates(collective):
        formula = FORMULAS.get((collective, row.name), Formula())
        rounds, volume = formula.rounds, formula.volume
        if rounds is None or volume is None or formula.differs or not row.of_library:
            continue
        if obstacle_to(row, placement.size, reproducible) is None:
            names = values_at(row, placement.size)
            seconds, nbytes = (eval(_code(each), names) for each in (rounds, volume))
            found.append(Line(seconds * alpha, nbytes * beta, row))
    return found


@cache
def _code(formula: str) -> CodeType:
    return compile(formula, "<formula>", "eval")


def _least_bandwidth(placement: Placement) -> float:
    """The bytes per second of the slowest link between hosts."""
    machine, link_model = placement.machine, placement.link_model
    links = (machine.pair if isinstance(machine, UniformCluster) else machine).links
    return min(
        link_model.bytes_per_second(link)
        for link in links
        if link.kind is LinkKind.NETWORK
    )
