"""The heap of a rank in shared memory, for arrays that are sent without a copy."""

import math
from bisect import insort
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo._kernels.engine.transport.segment import Block, Segment, release_pages
from collalgo.base.finalizers import Lock, finalize
from collalgo.errors import BootstrapError

#: Arrays are aligned to pages, so that their pages can be returned to the kernel.
PAGE = 4096

#: The largest heap of a rank: addresses only, until they are written to.
HEAP_BYTES = 1 << 36

#: The largest total of the heaps of all ranks.
ADDRESSES = 1 << 42


def heap_bytes(size: int) -> int:
    """The size of the heap of each of ``size`` ranks, in bytes.

    The heaps are adjacent, so this is the distance between equal arrays of two ranks.
    It is not a power of two: the first cache of some processors (AMD's Zen) predicts
    the way of a line from the low bits of its address, and would mispredict every time.
    """
    return min(HEAP_BYTES, ADDRESSES // size) // PAGE * PAGE - PAGE


def mapped(size: int, descriptor: int, *, of_threads: bool = False) -> Segment:
    """Map the memory file of a host; its ranks may be threads of this process.

    Without enough addresses, as under a memory limit, there are no heaps.
    """
    with suppress(BootstrapError):
        return Segment(descriptor, size, heap_bytes(size), of_threads)
    return Segment(descriptor, size, 0, of_threads)


class Heap:
    """A first-fit allocator that joins adjacent free runs.

    Parameters
    ----------
    segment
        The memory of the host.
    place
        The number of this rank on the host.
    """

    def __init__(self, segment: Segment, place: int):
        self._segment: Segment | None = segment
        self._place = place
        self._free = [(0, segment.heap_bytes)]
        self._lock = Lock()

    def take(self, nbytes: int) -> Block | None:
        """Allocate a run of pages; None if there is no room, or the heap is closed."""
        segment = self._segment
        if segment is None or segment.forked:
            return None
        wanted = max(-(-nbytes // PAGE) * PAGE, PAGE)
        with self._lock:
            for i, (start, stop) in enumerate(self._free):
                if stop - start >= wanted:
                    self._free[i] = (start + wanted, stop)
                    break
            else:
                return None
        block = Block(segment, self._place, start, nbytes)
        finalize(block, self._give, segment, start, start + wanted).atexit = False
        return block

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """An array in the heap; an ordinary one if there is no room."""
        dtype = np.dtype(dtype)
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(lengths) * dtype.itemsize
        block = self.take(nbytes) if nbytes else None
        if block is None:
            return np.empty(lengths, dtype)
        return np.frombuffer(memoryview(block), dtype).reshape(lengths)

    def close(self) -> None:
        """Stop allocating; existing allocations stay valid while they are used."""
        self._segment = None

    def _give(self, segment: Segment, start: int, stop: int) -> None:
        release_pages(segment, self._place, start, stop - start)
        with self._lock:
            insort(self._free, (start, stop))
            joined: list[tuple[int, int]] = []
            for run in self._free:
                if joined and joined[-1][1] == run[0]:
                    joined[-1] = (joined[-1][0], run[1])
                elif run[0] < run[1]:
                    joined.append(run)
            self._free = joined
