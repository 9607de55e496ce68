"""Measure collectives on this host, to correct its prices by the results."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from collalgo.bench.cells import PLACES, Bench, Cell, ops_of
from collalgo.bench.peers.worker import writer
from collalgo.bench.timing import race

from collalgo import Communicator, spawn
from collalgo.cost.corrections import MOST, Ratio
from collalgo.cost.host_profile import HostProfile
from collalgo.selection.choice import select
from collalgo.selection.on_host import HostPricer

#: The sizes that are measured, in bytes.
SIZES = (
    *(8, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10),
    *(1 << 20, 4 << 20, 16 << 20),
)

#: The numbers of ranks that are measured besides 2, as multiples of the cores, and the
#: most of them; more ranks have the corrections of these.
CROWDS, MOST_RANKS = (1, 2, 4), 256

#: The most bytes of the arrays of a cell on all ranks; their results take as many.
MOST_BYTES = 2 << 30

#: Seconds of the timed calls of a cell, and the fewest and most calls.
BUDGET, FEWEST, MOST_CALLS = 0.02, 5, 500

#: How often all cells are measured, in turn with the others, and unstable ones again.
TURNS, FURTHER = 3, 2

#: The spread of a cell that is stable.
STABLE = 0.1

#: The measured seconds of each cell, one for each turn.
Times = dict[Cell, list[float]]

#: Called before each turn with the part of all turns that is done.
Progress = Callable[[float], None]


def numbers_of_ranks(cores: int) -> list[int]:
    """The numbers of ranks that are measured on a host, by its number of cores."""
    return sorted({2, *(min(max(cores * n, 2), MOST_RANKS) for n in CROWDS)})


def cells(ranks: int) -> Iterator[Cell]:
    """A cell for each collective and size, of those that fit in memory."""
    fit = [nbytes for nbytes in SIZES if nbytes * ranks <= MOST_BYTES]
    for collective, places in PLACES.items():
        sizes = fit if collective != "barrier" else (0,)
        for nbytes, op in product(sizes, ops_of(collective, "sum")):
            yield Cell(collective, nbytes, op=op, place=places[0])


def measure_ratios(
    profile: HostProfile,
    progress: Progress = lambda _: None,
    chosen: Sequence[Cell] = (),
    ranks: Sequence[int] = (),
) -> Iterator[list[Ratio]]:
    """The measured over the predicted times of cells, for each number of ranks.

    The cells take turns, so that a disturbance meets only some measurements of each.

    Parameters
    ----------
    profile
        The profile that prices are made of.
    progress
        Is called with the part of the turns that are done.
    chosen
        The cells; by default :func:`cells`.
    ranks
        The numbers of ranks; by default :func:`numbers_of_ranks`.
    """
    sizes, turns = list(ranks) or numbers_of_ranks(profile.cores), TURNS + FURTHER
    for done, size in enumerate(sizes):
        times: Times = defaultdict(list)
        some = list(chosen) or [*cells(size)]
        for turn in range(turns):
            progress((done + turn / turns) / len(sizes))
            _add(times, size, some if turn < TURNS else _unstable(times))
        yield [_ratio(size, cell, one, profile) for cell, one in times.items()]


def _add(times: Times, size: int, some: Sequence[Cell]) -> None:
    """Measure some cells once more."""
    if some:
        found = spawn(partial(_seconds, some=some), size)[0]
        for cell, seconds in zip(some, found, strict=True):
            times[cell].append(seconds)


def _unstable(times: Times) -> list[Cell]:
    """The cells whose measurements differ."""
    return [cell for cell, seconds in times.items() if _spread(seconds) > STABLE]


def _seconds(comm: Communicator, some: Iterable[Cell]) -> list[float]:
    """The median seconds of a call of each cell, on one of the ranks."""
    return [_of_cell(comm, cell) for cell in some]


def _of_cell(comm: Communicator, cell: Cell) -> float:
    bench = Bench(cell, comm)
    spec = {**cell._asdict(), "fresh": True}
    timed = partial(
        race,
        comm,
        [bench.call()],
        before=writer(spec, comm.rank, bench.source),
        in_a_row=cell.in_a_row,
    )
    one = float(np.median(timed(iterations=FEWEST))) * cell.in_a_row
    calls = int(np.clip(BUDGET / one, FEWEST, MOST_CALLS))
    return float(np.median(timed(iterations=calls, warmup=0)))


def _spread(seconds: Sequence[float]) -> float:
    """The range of the middle half of measurements, as a part of their median."""
    low, middle, high = np.percentile(seconds, [25, 50, 75])
    return float((high - low) / middle)


def _ratio(
    size: int, cell: Cell, seconds: Sequence[float], profile: HostProfile
) -> Ratio:
    nbytes = cell.counts(size)[1] * np.dtype(cell.dtype).itemsize
    found = select(cell.collective, nbytes, topology=HostPricer(size, profile))
    predicted = found.seconds / found.correction
    ratio = float(np.clip(np.median(seconds) / predicted, 1 / MOST, MOST))
    return Ratio(cell.collective, size, nbytes, ratio, _spread(seconds))
