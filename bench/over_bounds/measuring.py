"""The prices of all collectives on a machine, and their bounds."""

from time import process_time
from typing import Any, NamedTuple

from collalgo.bench.over_bounds.machines import NamedMachine

from collalgo.errors import CollalgoError
from collalgo.selection.choice import select
from collalgo.selection.on_topology import TopologyPricer

#: The bytes of each collective.
NBYTES = 1 << 30

#: The collectives that are compared.
COMPARED = (
    "allgather", "reduce_scatter", "allreduce", "broadcast", "reduce", "scatter",
    "gather", "alltoall",
)  # fmt: skip

#: The version of the schedules that are compared, kept with the figures: 2 has
#: allreduces in waves, 3 short steps at both ends of waves, 4 broadcasts over relays,
#: gentle and steep ramps, and messages into hosts that are divided by the widths of
#: unequal NICs, 5 scatters whose paths of several hops are spread between direct ones,
#: 6 waves that end as slowly as they begin, and combine units in fewer messages,
#: allreduces by shares, scatters that relay first, more trees of more than 128 ranks.
#: Raise it where schedules become better on many machines.
VERSION = 6

#: The significant digits of figures in files.
DIGITS = 5


class Cell(NamedTuple):
    """A price and what it is compared with, in seconds.

    Attributes
    ----------
    algorithm : str
        The name of the choice without parameters.
    seconds, bound : float
        Its price, and the bound.
    in_rounds : float
        The lower bound in the model of rounds.
    latency : float
        The price without bytes.
    """

    algorithm: str
    seconds: float
    bound: float
    in_rounds: float
    latency: float

    @property
    def ratio(self) -> float:
        """The price over the bound."""
        return self.seconds / self.bound

    @property
    def ratio_in_rounds(self) -> float:
        """The price over the bound in rounds."""
        return self.seconds / self.in_rounds


def figures_of(machine: NamedMachine) -> dict[str, Any]:
    """The cells of a machine as JSON, or the reason why it has no prices."""
    start = process_time()
    try:
        pricer = TopologyPricer(machine.load())
        cells = {name: _cell(pricer, name) for name in COMPARED}
    except CollalgoError as error:
        return {"why": str(error)}
    took = round(process_time() - start, 2)
    rows = {name: _rounded(cell) for name, cell in cells.items() if cell}
    return {"size": pricer.size, "took": took, "version": VERSION, "cells": rows}


def _cell(pricer: TopologyPricer, collective: str) -> Cell | None:
    """The choice for a collective, whose bound is known."""
    found = select(collective, NBYTES, topology=pricer)
    if found.bound is None:
        return None
    best = found.decision.candidate
    return Cell(
        best.row.base_name,
        found.seconds,
        found.bound.seconds(NBYTES),
        found.bound.in_rounds(NBYTES),
        float(best.price.seconds(0.0)),
    )


def _rounded(cell: Cell) -> list[Any]:
    """A cell as a list of a name and of numbers with few digits."""
    name, *numbers = cell
    return [name, *(float(f"{number:.{DIGITS}g}") for number in numbers)]
