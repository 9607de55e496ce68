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

#: The numbers of ranks that are measured besides 2, as multiples of the cores.
CROWDS = 1, 2, 4

#: Seconds of the timed calls of a cell, and the fewest and most calls.
BUDGET, FEWEST, MOST_CALLS = 0.02, 5, 500

#: How often all cells are measured, in turn with the others, and unstable ones again.
TURNS, FURTHER = 3, 2

#: The spread of a cell that is stable.
STABLE = 0.1

#: The measured seconds of a cell on a number of ranks, one for each turn.
Times = dict[tuple[int, Cell], list[float]]

#: Called after each turn of a number of ranks with the part that is done.
Progress = Callable[[float], None]


def numbers_of_ranks(cores: int) -> list[int]:
    """The numbers of ranks that are measured on a host, by its number of cores."""
    return sorted({2, *(max(cores * crowd, 2) for crowd in CROWDS)})


def cells() -> Iterator[Cell]:
    """A cell for each collective and size."""
    for collective, places in PLACES.items():
        sizes = SIZES if collective != "barrier" else (0,)
        for nbytes, op in product(sizes, ops_of(collective, "sum")):
            yield Cell(collective, nbytes, op=op, place=places[0])


def measure_ratios(
    profile: HostProfile,
    progress: Progress = lambda _: None,
    chosen: Sequence[Cell] = (),
    ranks: Sequence[int] = (),
) -> list[Ratio]:
    """The measured over the predicted times of cells on this host.

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
    times: Times = defaultdict(list)
    sizes = list(ranks) or numbers_of_ranks(profile.cores)
    everything = {size: list(chosen) or [*cells()] for size in sizes}
    for turn in range(TURNS + FURTHER):
        left = everything if turn < TURNS else _unstable(everything, times)
        for done, (size, some) in enumerate(left.items()):
            progress((turn + done / len(left)) / (TURNS + FURTHER))
            _add(times, size, some)
    return [_ratio(size, cell, one, profile) for (size, cell), one in times.items()]


def _add(times: Times, size: int, some: Sequence[Cell]) -> None:
    """Measure some cells once more."""
    if some:
        found = spawn(partial(_seconds, some=some), size)[0]
        for cell, seconds in zip(some, found, strict=True):
            times[size, cell].append(seconds)


def _unstable(everything: dict[int, list[Cell]], times: Times) -> dict[int, list[Cell]]:
    """The cells whose measurements differ."""
    return {
        size: [cell for cell in some if _spread(times[size, cell]) > STABLE]
        for size, some in everything.items()
    }


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
