"""Measure calls of sizes never seen beside the same calls again, in all collectives."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.cells import BLOCKS, PLACES, REDUCING, ROOTED, Cell
from collalgo.bench.mpi_world import mpi_world
from collalgo.bench.new_sizes import sizes_around
from collalgo.bench.peers.worker import (
    NAMES_OF_MPI,
    OF_THE_ROOT,
    Call,
    time_first_calls,
)
from collalgo.bench.starting import starting_barrier
from numpy.typing import NDArray

from collalgo import Communicator
from collalgo.schedule.collective import COLLECTIVES

#: The bytes of a rank's block around which sizes are drawn.
SIZES = (400, 40_000, 1_200_000)

#: The calls: all collectives that carry data, those with blocks also with counts.
CALLS = tuple(
    call
    for name in PLACES
    if COLLECTIVES[name].carries_data
    for call in ((name, f"{name}v") if name in BLOCKS else (name,))
)

#: The collectives whose arrays have a row for each rank, and those with a result at the
#: root alone, which is rank 0.
IN_ROWS = tuple(name for name in BLOCKS if name not in REDUCING)
AT_ROOT = tuple(name for name in ROOTED if name not in OF_THE_ROOT)


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
        of_all = _have_all_blocks(name.removesuffix("v"))
        source, target = map(self._part, memory, of_all)
        at_root = name.removesuffix("v") in AT_ROOT
        self.source, self.target = source, None if at_root and rank else target

    def _part(self, memory: NDArray[Any], all_blocks: bool) -> NDArray[Any]:
        if not all_blocks:
            return memory[: self.lengths[self._rank]]
        found = memory[: sum(self.lengths)]
        return found.reshape(self._rows, -1) if self._rows else found

    def write(self) -> None:
        """Write the arrays, as a program does before a call."""
        for array in (self.source, self.target):
            if array is not None:
                array.fill(1)

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
        for name in CALLS
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
    known, *others = [(one.write, one.call(comm, name)) for one in blocks]
    time_first_calls(start, known, [known])  # which makes what all sizes use
    times = [time_first_calls(start, known, others) for _ in range(2)]
    if world is not None:
        first, *rest = [(one.write, one.call_of_mpi(world, name)) for one in blocks]
        times.append(time_first_calls(world.Barrier, first, rest))
    new, seen, *theirs = np.max(comm.allgather(np.array(times)), axis=0)
    return SizeTimes(
        name,
        nbytes,
        float(np.median(seen)),
        float(np.median(new - seen)),
        float(np.median(theirs)) if theirs else None,
    )


def _have_all_blocks(collective: str) -> tuple[bool, bool]:
    """Whether the input and the output have the blocks of all ranks."""
    number = COLLECTIVES[collective].blocks
    if number != 1:
        return number > 1, number > 1
    spreads = collective in REDUCING or collective in OF_THE_ROOT
    return spreads, not spreads
