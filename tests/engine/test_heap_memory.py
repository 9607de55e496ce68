"""The memory of the heap: allocation, release, limits and forks."""

import gc
import mmap
import multiprocessing
import os
import resource
import secrets
from pathlib import Path

import numpy as np
import pytest

from collalgo import Communicator, CommunicatorClosed, spawn, threads
from collalgo._kernels.engine.transport.segment import Segment, segment_size
from collalgo.bootstrap.rendezvous import HostRendezvous
from collalgo.comm.current import runner_of
from collalgo.engine.heap import PAGE, Heap
from collalgo.launch.rank_function import run_as_rank
from tests.support.oracle import same

JUNK = 7


def test_memory_is_used_again_and_given_back():
    descriptor = os.memfd_create("heap")
    os.ftruncate(descriptor, segment_size(1, 16 * PAGE))
    heap = Heap(Segment(descriptor, 1, 16 * PAGE), 0)
    os.close(descriptor)
    blocks = [heap.take(PAGE) for _ in range(16)]
    assert heap.take(1) is None
    first = np.frombuffer(blocks[3], np.uint8)
    first[:] = JUNK
    del first, blocks[3]
    assert heap.take(2 * PAGE) is None
    again = np.frombuffer(heap.take(PAGE), np.uint8)
    assert not again.any()  # the kernel has had the page
    del again, blocks
    gc.collect()
    assert heap.take(16 * PAGE) is not None


def test_an_array_outlives_its_communicator():
    def run(comm):
        x = comm.empty((2, 3), np.int16)
        x[:] = comm.rank
        comm.close()
        x += 1
        with pytest.raises(CommunicatorClosed, match="empty"):
            comm.empty(1)
        return x

    assert [x.sum() for x in threads(run, 3)] == [6, 12, 18]


@pytest.mark.parametrize("shape", [0, (3, 0), (), 1, (2, 3, 4)])
def test_shapes(shape):
    def run(comm):
        x = comm.empty(shape, ">i4")
        like = np.empty(shape, ">i4")
        assert (x.shape, x.dtype) == (like.shape, like.dtype)
        assert x.flags.c_contiguous
        assert x.flags.writeable

    threads(run, 1)


def test_what_has_no_size_is_refused():
    def run(comm):
        with pytest.raises(ValueError, match="is not possible"):
            comm.empty(3, object)
        with pytest.raises(ValueError, match="shape is -1, which is out of range"):
            comm.empty(-1)

    threads(run, 1)


def test_too_large_an_array_is_an_ordinary_one(monkeypatch):
    monkeypatch.setattr("collalgo.engine.heap.heap_bytes", lambda size: PAGE)

    def run(comm):
        x = comm.empty(10_000, np.int32)
        x[:] = comm.rank
        comm.allreduce(x)
        return int(x[0])

    assert threads(run, 3) == [3, 3, 3]


def in_limits(function, size, job, results):
    """Run a function; rank 1 has no addresses for heaps, nor the memory of groups."""
    rank, results = results
    if rank == 1:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    context = HostRendezvous(job).connect("", rank, range(size))
    results.send(run_as_rank(Communicator(context, 60), function))


def limited(comm):
    for _ in range(100):
        comm.dup().close()
    twin = comm.dup()
    x = twin.empty(200_000, np.int64)
    x[:] = comm.rank
    out = np.empty_like(x)
    for _ in range(3):
        twin.allreduce(x, out=out)
        twin.broadcast(x, root=0)
        twin.broadcast(x, root=1)
    return int(out[0]), runner_of(twin).context.transport.segment.heap_bytes


def test_nothing_is_sent_without_a_copy_to_a_rank_without_addresses():
    start, job = multiprocessing.get_context("spawn"), secrets.token_hex(8)
    pipes = [start.Pipe() for _ in range(2)]
    ranks = [
        start.Process(target=in_limits, args=(limited, 2, job, (rank, pipe[1])))
        for rank, pipe in enumerate(pipes)
    ]
    for rank in ranks:
        rank.start()
    (first, heap), (second, none) = [pipe.recv() for pipe, _ in pipes]
    for rank in ranks:
        rank.join()
    assert none == 0 < heap
    assert first == second


def test_nothing_is_left_of_many_arrays():
    def run(comm):
        for _ in range(2000):
            comm.empty(1 << 20, np.float32)[:1] = 1
        return len(comm.heap._free)

    assert threads(run, 1) == [1]


def replaces(comm):
    array = np.frombuffer(mmap.mmap(-1, 3 * PAGE), np.int64)
    block = comm.heap.take(3 * PAGE)
    inside = np.frombuffer(memoryview(block), np.int64)
    inside[:] = comm.rank
    block.map_at(array.ctypes.data)
    same(array, inside)
    comm.allreduce(inside)
    same(array, np.ones_like(array))
    array[PAGE // 8] = JUNK
    assert inside[PAGE // 8] == JUNK
    with pytest.raises(OSError, match="cannot map 12288 bytes at 0x"):
        block.map_at(array.ctypes.data + 8)


def test_memory_is_replaced_by_that_of_a_heap():
    threads(replaces, 2, timeout=60)
    spawn(replaces, 2, timeout=60)


def forks(comm):
    memory = mmap.mmap(-1, PAGE)
    block = comm.heap.take(PAGE)
    memoryview(block)[:5] = b"there"
    block.map_at(np.frombuffer(memory, np.int8).ctypes.data)
    if not (child := os.fork()):
        os._exit(memory[:5] != b"there" or comm.heap.take(PAGE) is not None)
    return os.waitpid(child, 0)[1]


def test_a_forked_child_has_what_was_replaced_but_no_heap():
    assert spawn(forks, 2, timeout=60) == [0, 0]


def test_there_is_no_heap_in_what_is_closed():
    def run(comm):
        comm.close()
        return comm.heap.take(PAGE)

    assert threads(run, 1) == [None]
