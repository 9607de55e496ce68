"""Measure collectives on this host, to correct its prices by the results."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from collalgo.bench.cells import PLACES, Bench, Cell, ops_of
from collalgo.bench.peers.worker import writer
from collalgo.bench.timing import race

from collalgo import Communicator, spawn
from collalgo.cost.corrections import (
    MOST,
    SAME,
    Ratio,
    known,
    level_of,
    levels,
)
from collalgo.cost.distance import distance_now
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.transport.waiting import cores
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

#: Seconds of the timed calls of a cell with a core for each rank, and with fewer cores:
#: the turns of the ranks repeat themselves only over many time slices.
BUDGET, CROWDED = 0.02, 0.05

#: The fewest timed calls of a cell, and the most a second.
FEWEST, CALLS_PER_SECOND = 5, 25_000

#: How often all cells are measured, in turn with the others, and unstable ones again.
TURNS, FURTHER = 3, 2

#: The spread of a cell that is stable.
STABLE = 0.1


class Sample(NamedTuple):
    """The measured seconds of a call, and the distance of the cores meanwhile."""

    seconds: float
    distance: float


#: The samples of each cell, one for each turn in which the distance stayed.
Samples = dict[Cell, list[Sample]]

#: Called before each turn with the part of all turns that is done.
Progress = Callable[[float], None]


def numbers_of_ranks(cores: int) -> list[int]:
    """The numbers of ranks that are measured on a host, by its number of cores."""
    return sorted({2, *(min(max(cores * n, 2), MOST_RANKS) for n in CROWDS)})


def cells(ranks: int, sizes: Sequence[int] = SIZES) -> Iterator[Cell]:
    """A cell for each collective and size, of those that fit in memory."""
    fit = [nbytes for nbytes in sizes if nbytes * ranks <= MOST_BYTES]
    for collective, places in PLACES.items():
        chosen = fit if collective != "barrier" else (0,)
        for nbytes, op in product(chosen, ops_of(collective, "sum")):
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
        samples: Samples = defaultdict(list)
        some = list(chosen) or [*cells(size)]
        for turn in range(turns):
            progress((done + turn / turns) / len(sizes))
            _add(samples, size, some if turn < TURNS else _unstable(samples))
        yield [*_ratios(size, samples, profile)]


def carried_over(
    old: HostProfile, profile: HostProfile, found: Sequence[Ratio]
) -> list[Ratio]:
    """The ratios of an earlier profile for what was not measured this time.

    That are other collectives, numbers of ranks and distances of the cores.
    """
    seen: dict[tuple[str, int], list[float]] = defaultdict(list)
    for one in found:
        seen[one.collective, one.ranks].append(one.distance)

    def is_replaced(one: Ratio) -> bool:
        apart = seen[one.collective, one.ranks]
        return any(not x or _is_same(one.distance, x) for x in apart)

    return [
        _by_profile(one, old, profile)
        for one in known(old).ratios
        if not is_replaced(one)
    ]


def _is_same(one: float, other: float) -> bool:
    """Whether the cores are as far apart."""
    low, high = sorted((one, other))
    return high <= SAME * low


def _add(samples: Samples, size: int, some: Sequence[Cell]) -> None:
    """Measure some cells once more."""
    if some:
        found = spawn(partial(_samples, some=some), size)[0]
        for cell, sample in zip(some, found, strict=True):
            samples[cell] += [sample] if sample else []


def _unstable(samples: Samples) -> list[Cell]:
    """The cells whose measurements differ at a distance, or are missing."""
    found = _by_level(samples)
    unstable = {cell for (cell, _), some in found.items() if _spread(some) > STABLE}
    missing = {*samples} - {cell for cell, _ in found}
    return [cell for cell in samples if cell in unstable | missing]


def _by_level(samples: Samples) -> dict[tuple[Cell, float], list[Sample]]:
    """The samples of each cell and level of distances."""
    seen = levels(one.distance for some in samples.values() for one in some)
    found: dict[tuple[Cell, float], list[Sample]] = defaultdict(list)
    for cell, some in samples.items():
        for one in some:
            level = level_of(one.distance, seen)
            if _is_same(one.distance, level):
                found[cell, level].append(one)
    return found


def _samples(comm: Communicator, some: Iterable[Cell]) -> list[Sample | None]:
    """A sample of each cell, on one of the ranks; None if the distance has changed."""
    found: list[Sample | None] = []
    before = of_cores(comm)
    for cell in some:
        seconds, after = seconds_of(comm, cell), of_cores(comm)
        apart = (before * after) ** 0.5
        found.append(Sample(seconds, apart) if _is_same(before, after) else None)
        before = after
    return found


def of_cores(comm: Communicator) -> float:
    """The distance of the cores now, on all ranks, of which the others wait for one.

    0 if ranks share cores: their turns take longer than any handoff.
    """
    if comm.size > cores():
        return 0.0
    found = np.array([distance_now() if comm.rank == 0 else 0.0])
    return float(comm.broadcast(found)[0])


def seconds_of(comm: Communicator, cell: Cell) -> float:
    """The median seconds of a call of a cell."""
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
    budget = BUDGET if comm.size <= cores() else CROWDED
    calls = int(np.clip(budget / one, FEWEST, budget * CALLS_PER_SECOND))
    return float(np.median(timed(iterations=calls, warmup=0)))


def _spread(samples: Sequence[Sample]) -> float:
    """The range of the middle half of measurements, as a part of their median."""
    low, middle, high = np.percentile([one.seconds for one in samples], [25, 50, 75])
    return float((high - low) / middle)


def _ratios(size: int, samples: Samples, profile: HostProfile) -> Iterator[Ratio]:
    """The ratio of each cell at each level of distances."""
    for (cell, level), some in _by_level(samples).items():
        nbytes = cell.counts(size)[1] * np.dtype(cell.dtype).itemsize
        found = Ratio(cell.collective, size, nbytes, 1.0, _spread(some), level)
        seconds = float(np.median([one.seconds for one in some]))
        yield found._replace(ratio=_bounded(seconds / _price(found, profile)))


def _price(cell: Ratio, profile: HostProfile) -> float:
    """The predicted seconds of a cell, without a correction."""
    pricer = HostPricer(cell.ranks, profile)
    found = select(cell.collective, cell.nbytes, topology=pricer)
    return found.seconds / found.correction


def _by_profile(one: Ratio, old: HostProfile, new: HostProfile) -> Ratio:
    """The ratio of the same measured time to the price by another profile."""
    ratio = one.ratio * _price(one, old) / _price(one, new)
    return one._replace(ratio=_bounded(ratio))


def _bounded(ratio: float) -> float:
    return float(np.clip(ratio, 1 / MOST, MOST))
