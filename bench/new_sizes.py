"""Time calls of sizes that were never made before, as programs make them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np
from collalgo.bench.cells import Bench, Cell, dtype_of
from collalgo.bench.peers.contest import OURS, Contestant
from collalgo.bench.peers.worker import (
    Call,
    Timed,
    time_first_calls,
)
from collalgo.bench.records import Record
from collalgo.bench.starting import starting_barrier

from collalgo import Communicator

#: The most sizes of a cell, and of one whose arrays are longer than LONG bytes. Around
#: a few elements there are fewer than LEAST sizes, whose median would be chance.
LEAST, MOST, MOST_LONG, LONG = 8, 60, 12, 1 << 20


def sizes_around(cell: Cell, ranks: int) -> list[Cell]:
    """The cells of different sizes around one, without it, in random order.

    They are distributed evenly in the logarithm, from its size divided by the root of
    two to its size times that. None where there are fewer than LEAST.
    """
    block, count = cell.counts(ranks)
    rng = np.random.default_rng(cell.nbytes)
    most = MOST_LONG if cell.nbytes > LONG else MOST
    blocks = np.rint(block * 2 ** rng.uniform(-0.5, 0.5, most)).astype(int).tolist()
    unit = dtype_of(cell.dtype).itemsize * count // max(block, 1)
    different = dict.fromkeys(one for one in blocks if one and one != block)
    if len(different) < LEAST:
        return []
    return [cell._replace(nbytes=one * unit) for one in different]


def first_calls(
    comm: Communicator, cell: Cell, call_of: Callable[[Bench], Call | None]
) -> float | None:
    """The median seconds of the first calls of new sizes; None without new sizes.

    ``call_of`` gives the call of a cell, or None where the library has none. A call of
    the cell itself precedes each, so that the code is in the caches as in other rows.
    """

    def timed(one: Cell) -> Timed | None:
        call = call_of(Bench(one, comm))
        return call and (_no_write, call)

    known = timed(cell)
    if known is None:
        return None
    others = map(timed, sizes_around(cell, comm.size))
    seconds = time_first_calls(starting_barrier(comm), known, others)
    if not seconds:
        return None
    slowest = np.array(seconds)
    comm.allreduce(slowest, "max")
    return float(np.median(slowest))


def _no_write() -> None:
    """The arrays of a cell keep what they have."""


def race_first_calls(
    field: Sequence[Contestant],
    cells: Iterable[Cell],
    algorithm: str | None,
    *,
    fresh: bool,
) -> dict[tuple[Cell, str], float]:
    """The same for each cell and contestant that supports the call, by its name."""
    ranks, found = field[0].ranks, {}
    more = {"algorithm": algorithm, "check": False, "fresh": fresh, "in_a_row": 1}
    for cell in cells:
        new = sizes_around(cell, ranks)
        specs = [one.spec(ranks) | more for one in (cell, *new) if new]
        times = {one.name: one.first_seconds(specs) for one in field}
        for name, seconds in times.items():
            if len(seconds):
                found[cell, name] = float(np.median(seconds))
    return found


def ratios_of_peers(records: Sequence[Record]) -> dict[str, list[float]]:
    """The times of peers in calls of new sizes relative to ours, of each cell."""
    ours = {r[1:9]: r.new_size for r in records if r.contestant == OURS}
    found: dict[str, list[float]] = {}
    for record in records:
        mine = ours.get(record[1:9])
        if record.contestant != OURS and record.new_size and mine:
            found.setdefault(record.contestant, []).append(record.new_size / mine)
    return found


def best_ratio(ours: Record, records: Sequence[Record]) -> float | None:
    """The time of the best peer in new sizes of a cell relative to ours, if known."""
    of_cell = [one for one in records if one[1:9] == ours[1:9]]
    return min(chain(*ratios_of_peers(of_cell).values()), default=None)
