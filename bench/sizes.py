"""Measure calls of sizes never seen beside the same calls again, in all collectives."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.cells import Cell
from collalgo.bench.mpi_world import mpi_world
from collalgo.bench.new_sizes import sizes_around
from collalgo.bench.peers.worker import starting_barrier
from numpy.typing import NDArray

from collalgo import Communicator

Call = Callable[[], object]

#: The bytes of a rank's block around which sizes are drawn.
SIZES = (400, 40_000, 1_200_000)

#: The input and the output of each collective: a rank's block, or those of all ranks.
BLOCK, ALL = "block", "all"
ENDS = {
    **dict.fromkeys(("allreduce", "broadcast", "reduce"), (BLOCK, BLOCK)),
    **dict.fromkeys(("allgather", "allgatherv"), (BLOCK, ALL)),
    **dict.fromkeys(("reduce_scatter", "reduce_scatterv"), (ALL, BLOCK)),
    **dict.fromkeys(("alltoall", "alltoallv"), (ALL, ALL)),
    **dict.fromkeys(("gather", "gatherv"), (BLOCK, ALL)),
    **dict.fromkeys(("scatter", "scatterv"), (ALL, BLOCK)),
    **dict.fromkeys(("scan", "exscan"), (BLOCK, BLOCK)),
}

#: The collectives whose arrays have a row for each rank, and those with a result at the
#: root alone, which is rank 0.
IN_ROWS = ("allgather", "alltoall", "gather", "scatter")
AT_ROOT = ("reduce", "gather", "gatherv")

#: The names of mpi4py that differ by more than a capital letter.
NAMES_OF_MPI = {
    "broadcast": "Bcast",
    "reduce_scatter": "Reduce_scatter_block",
    "reduce_scatterv": "Reduce_scatter",
}


class SizeTimes(NamedTuple):
    """The times of the calls of a collective, with sizes around one.

    Attributes
    ----------
    collective : str
        The name of the call.
    nbytes : int
        The bytes of a rank's block around which the sizes were drawn.
    seen, added : float
        The seconds of a call whose size was used before, on the slowest rank, and how
        much longer the first call of the size took; both are medians.
    mpi : float or None
        The seconds of mpi4py in the same calls; None if it is not measured.
    """

    collective: str
    nbytes: int
    seen: float
    added: float
    mpi: float | None


class Blocks:
    """The arrays of a call of one size.

    Parameters
    ----------
    memory
        The arrays of which those of all calls are parts.
    name
        The collective; the blocks of one that ends in v differ by the rank.
    count
        The elements of the largest block.
    rank, size
        The rank, and the number of ranks.

    Attributes
    ----------
    lengths : list of int
        The elements of each rank's block.
    table : list of list of int
        The elements from each rank to each, for an alltoallv.
    source, target : array or None
        The input and the output.
    """

    def __init__(
        self,
        memory: Sequence[NDArray[Any]],
        name: str,
        count: int,
        rank: int,
        size: int,
    ):
        less = max(count // 8, 1) if name.endswith("v") else 0
        self.lengths = [max(count - place % 3 * less, 0) for place in range(size)]
        self.table = [
            self.lengths[place:] + self.lengths[:place] for place in range(size)
        ]
        self._rank, self._rows = rank, size if name in IN_ROWS else 0
        source, target = map(self._part, memory, ENDS[name])
        self.source, self.target = source, None if name in AT_ROOT and rank else target

    def _part(self, memory: NDArray[Any], of: str) -> NDArray[Any]:
        if of == BLOCK:
            return memory[: self.lengths[self._rank]]
        found = memory[: sum(self.lengths)]
        return found.reshape(self._rows, -1) if self._rows else found

    def call(self, comm: Communicator, name: str) -> Call:
        """The call of collalgo."""
        named: dict[str, Any] = {} if name == "broadcast" else {"out": self.target}
        if name.endswith("v"):
            named["counts"] = self.table if name == "alltoallv" else self.lengths
        return partial(getattr(comm, name), self.source, **named)

    def call_of_mpi(self, world: Any, name: str) -> Call:
        """The same call of mpi4py."""
        source, target, mine = self.source, self.target, self.table[self._rank]
        call = getattr(world, NAMES_OF_MPI.get(name, name.capitalize()))
        ends: dict[str, tuple[Any, ...]] = {
            "broadcast": (source,),
            "allgatherv": (source, (target, self.lengths)),
            "gatherv": (source, None if target is None else (target, self.lengths)),
            "scatterv": ((source, self.lengths), target),
            "reduce_scatterv": (source, target, self.lengths),
            "alltoallv": ((source, mine), (target, mine)),
        }
        return partial(call, *ends.get(name, (source, target)))


def sizes(comm: Communicator, *, mpi: bool, most: int | None = None) -> list[SizeTimes]:
    """Measure all collectives; with ``mpi`` also those of mpi4py, in turn.

    Parameters
    ----------
    comm
        The communicator.
    mpi
        Whether to measure mpi4py.
    most
        The most sizes of each kind of call; by default as of the column ``fresh``.
    """
    return [
        _measured(comm, name, nbytes, mpi_world(comm.size) if mpi else None, most)
        for name in ENDS
        for nbytes in SIZES
    ]


def _measured(
    comm: Communicator, name: str, nbytes: int, world: Any, most: int | None
) -> SizeTimes:
    """The times of one collective around one size."""
    around = Cell("allreduce", nbytes)
    counts = [one.counts(1)[0] for one in [around, *sizes_around(around, 1)][:most]]
    memory = [np.ones(comm.size * max(counts), np.float32) for _ in range(2)]
    blocks = [Blocks(memory, name, n, comm.rank, comm.size) for n in counts]
    start = starting_barrier(comm)
    calls = [(one, one.call(comm, name)) for one in blocks]
    _after_known(start, [calls[0], calls[0]])  # which makes what all sizes use
    times = [_after_known(start, calls) for _ in range(2)]
    if world is not None:
        of_mpi = [(one, one.call_of_mpi(world, name)) for one in blocks]
        times.append(_after_known(world.Barrier, of_mpi))
    new, seen, *theirs = np.max(comm.allgather(np.array(times)), axis=0)
    return SizeTimes(
        name,
        nbytes,
        float(np.median(seen)),
        float(np.median(new - seen)),
        float(np.median(theirs)) if theirs else None,
    )


def _after_known(start: Call, calls: Sequence[tuple[Blocks, Call]]) -> list[float]:
    """The seconds of each call but the first, which precedes each of the others.

    So the code of the library and the arrays are in the caches.
    """
    known, *others = calls
    return [[_seconds(start, *one) for one in (known, other)][1] for other in others]


def _seconds(start: Call, blocks: Blocks, call: Call) -> float:
    """The seconds of a call that starts at a barrier."""
    for array in (blocks.source, blocks.target):
        if array is not None:
            array.fill(1)
    start()
    begun = perf_counter()
    call()
    return perf_counter() - begun
