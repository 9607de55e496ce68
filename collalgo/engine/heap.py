"""The heap of a rank in shared memory, for arrays that are sent without a copy."""

import weakref
from bisect import insort
from contextlib import suppress
from threading import Lock

from collalgo._kernels.engine.transport.host_endpoint import HostEndpoint
from collalgo._kernels.engine.transport.segment import Block, Segment, give_back

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


def mapped(size: int, descriptor: int = -1) -> Segment:
    """Map the memory of a world, of a memory file or private to this process.

    Without enough addresses, as under a memory limit, there are no heaps.
    """
    with suppress(OSError):
        return Segment(size, heap_bytes(size), descriptor)
    return Segment(size, 0, descriptor)


class Heap:
    """A first-fit allocator that joins adjacent free runs."""

    def __init__(self, shared: HostEndpoint):
        self._shared = shared  # drops the segment when it is closed
        self._free = [(0, shared.segment.heap_bytes)]
        self._lock = Lock()

    def take(self, nbytes: int) -> Block | None:
        """Allocate a run of pages; None if there is no room, or the heap is closed."""
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
