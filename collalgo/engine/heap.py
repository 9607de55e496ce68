"""A rank's part of the shared memory that arrays are made in."""

import weakref
from bisect import insort
from contextlib import suppress
from threading import Lock

from collalgo._kernels.engine.transport.segment import Block, Segment, give_back
from collalgo._kernels.engine.transport.shared_memory import SharedMemory

#: Arrays begin at pages, so that their pages can be given back.
PAGE = 4096

#: What a rank can make at most: addresses only, until they are written to.
HEAP_BYTES = 1 << 36

#: Addresses that the heaps of all ranks together may take.
ADDRESSES = 1 << 42


def heap_bytes(size: int) -> int:
    """How large the heap of each of so many ranks is.

    The heaps lie one behind the other, so what ranks make alike lies so far apart: not
    a power of two, by whose lower bits the first cache of some processors (AMD's Zen)
    guesses where a line is. It would take one for the other, every time.
    """
    return min(HEAP_BYTES, ADDRESSES // size) // PAGE * PAGE - PAGE


def mapped(size: int, descriptor: int = -1) -> Segment:
    """The memory of a world, of a memory file or of this process alone.

    Where there are not so many addresses, as under a limit of the memory, arrays that
    can be lent are left out.
    """
    with suppress(OSError):
        return Segment(size, heap_bytes(size), descriptor)
    return Segment(size, 0, descriptor)


class Heap:
    """First fit among the free runs; what is given back is joined to its neighbours."""

    def __init__(self, shared: SharedMemory):
        self._shared = shared  # which lets go of the segment when it is closed
        self._free = [(0, shared.segment.heap_bytes)]
        self._lock = Lock()

    def take(self, nbytes: int) -> Block | None:
        """A run of pages, or None if there is no room, or no heap any more."""
        if self._shared.closed or self._shared.forked:
            return None
        wanted = max(-(-nbytes // PAGE) * PAGE, PAGE)
        with self._lock:
            for i, (start, stop) in enumerate(self._free):
                if stop - start >= wanted:
                    self._free[i] = (start + wanted, stop)
                    break
            else:
                return None
        segment = self._shared.segment
        block = Block(segment, self._shared.rank, start, nbytes)
        weakref.finalize(
            block, self._give, segment, start, start + wanted
        ).atexit = False
        return block

    def _give(self, segment: Segment, start: int, stop: int) -> None:
        give_back(segment, self._shared.rank, start, stop - start)
        with self._lock:
            insort(self._free, (start, stop))
            joined: list[tuple[int, int]] = []
            for run in self._free:
                if joined and joined[-1][1] == run[0]:
                    joined[-1] = (joined[-1][0], run[1])
                elif run[0] < run[1]:
                    joined.append(run)
            self._free = joined
