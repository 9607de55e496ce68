"""Objects of Python between ranks: what arrives is equal to what was sent."""

import asyncio
import operator
from collections import deque

import numpy as np
import pytest

from collalgo import CollalgoError, InvalidElsewhere, MismatchError, threads
from collalgo.comm.object_frames import LARGE, borders, frames_of, object_of

SIZES = (1, 2, 3, 5, 8)


def thing(*key):
    """An object that tells its key, with arrays of no, some and many bytes."""
    number = sum(key)
    large = [np.full(LARGE + 7 * i, number % 100, np.int8) for i in range(number % 3)]
    return {"key": key, "empty": np.empty(0), "large": large, "text": "x" * number}


def is_thing(found, *key):
    expected = thing(*key)
    arrays = found.pop("large")
    assert all(array.flags.writeable and array.flags.aligned for array in arrays)
    assert [a.tobytes() for a in arrays] == [a.tobytes() for a in expected["large"]]
    assert found.pop("empty").shape == (0,)
    assert found == {"key": key, "text": expected["text"]}


class InBackground:
    """The calls of a communicator on objects in the background, each waited for."""

    def __init__(self, comm):
        self.comm, self.rank, self.size = comm, comm.rank, comm.size

    def __getattr__(self, name):
        call = getattr(self.comm, f"{name}_async")
        return lambda *args: call(*args).wait()


@pytest.mark.parametrize("form", [lambda comm: comm, InBackground])
@pytest.mark.parametrize("size", SIZES)
def test_every_object_arrives_at_its_place(size, form):
    def on_each_rank(comm):
        comm = form(comm)
        rank, ranks = comm.rank, range(comm.size)
        for root in {0, comm.size - 1}:
            mine = thing(root, 7)
            found = comm.broadcast_object(mine if rank == root else None, root)
            assert (found is mine) == (rank == root)
            is_thing(found, root, 7)
            found = comm.gather_objects(thing(rank), root)
            assert (found is None) == (rank != root)
            for sender, one in enumerate(found or ()):
                is_thing(one, sender)
            rows = [thing(root, to) for to in ranks] if rank == root else None
            is_thing(comm.scatter_objects(rows, root), root, rank)
        for sender, one in enumerate(comm.allgather_objects(thing(rank))):
            is_thing(one, sender)
        swapped = comm.alltoall_objects([thing(rank, to) for to in ranks])
        for sender, one in enumerate(swapped):
            is_thing(one, sender, rank)

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", SIZES)
def test_calls_on_objects_and_arrays_run_in_the_order_of_their_submission(size):
    def on_each_rank(comm):
        x = np.ones(1)
        objects = [comm.allgather_objects_async((comm.rank, i)) for i in range(2)]
        sums = [comm.allreduce_async(x)]
        objects.append(comm.broadcast_object_async([comm.rank]))
        sums.append(comm.allreduce_async(x))
        assert comm.reduce_objects(1, root=0) == (None if comm.rank else size)
        assert x == size**2  # a call in the foreground comes after all of them
        for i in range(2):
            assert objects[i].wait() == [(rank, i) for rank in range(size)]
        assert objects[2].wait() == [0]
        return [work.wait().item() for work in sums]

    assert threads(on_each_rank, size, timeout=60) == [[size**2] * 2] * size


def test_a_coroutine_awaits_objects():
    async def on_each_loop(comm):
        calls = [comm.allgather_objects_async([comm.rank, i]) for i in range(2)]
        return await asyncio.gather(*calls)

    def on_each_rank(comm):
        return asyncio.run(on_each_loop(comm))

    everyone = [[[rank, i] for rank in range(3)] for i in range(2)]
    assert threads(on_each_rank, 3, timeout=60) == [everyone] * 3


@pytest.mark.parametrize("form", [lambda comm: comm, InBackground])
def test_objects_are_combined_in_the_order_of_the_ranks(form):
    def on_each_rank(comm):
        return form(comm).reduce_objects([comm.rank], operator.add, comm.size - 1)

    assert threads(on_each_rank, 5) == [None] * 4 + [[0, 1, 2, 3, 4]]


def test_messages_of_objects_keep_their_order_and_tags():
    def on_each_rank(comm):
        if comm.rank:
            for number in range(4):
                comm.send_object(thing(number), 0, tag=number % 2)
            return
        for number in (1, 0, 2, 3):  # a sender of much waits for its receiver
            is_thing(comm.recv_object(None if number else 1, number % 2), number)

    threads(on_each_rank, 2, timeout=60)


def test_large_buffers_are_not_copied_by_the_pickler():
    array = np.arange(LARGE)
    _, frame = frames_of([array])
    assert np.shares_memory(frame, array)
    received = frame.copy()
    assert np.shares_memory(object_of([frames_of([array])[0], received])[0], received)


def test_lengths_beyond_32_bits_are_added_exactly():
    assert borders(np.array([2**31, 2**33, 5])) == [0, 2**31, 5 * 2**31, 5 * 2**31 + 5]


@pytest.mark.parametrize("form", [lambda comm: comm, InBackground])
def test_an_object_that_cannot_be_pickled_is_an_error_on_every_rank(form):
    def on_each_rank(comm):
        comm = form(comm)
        wrong = (lambda: 0) if comm.rank == 1 else 0
        kind, words = InvalidElsewhere, "gather_objects #1: rank 1 passed invalid"
        if comm.rank == 1:
            kind, words = Exception, "pickle"
        with pytest.raises(kind, match=words):
            comm.gather_objects(wrong)
        with pytest.raises(ValueError, match=r"2 objects for 3 ranks|rank 0 passed"):
            comm.scatter_objects([1, 2])
        assert comm.allgather_objects(comm.rank) == [0, 1, 2]

    threads(on_each_rank, 3)


@pytest.mark.parametrize(
    "wrong",
    [{0: "a", 1: "b"}, {"a", "b"}, "ab", b"ab", iter("ab"), np.array(2), 2, {}.keys()],
    ids=lambda wrong: type(wrong).__name__,
)
def test_objects_without_a_place_are_refused(wrong):
    def refused(call, caller, is_mine):
        with pytest.raises((TypeError, InvalidElsewhere)) as caught:
            call()
        assert isinstance(caught.value, CollalgoError) == (not is_mine)
        if is_mine:
            words = rf"{caller}: objects is .*, of type {type(wrong).__name__}; pass a "
            caught.match(words + "list of 2 objects, one for each rank")

    def on_each_rank(comm):
        at_root = comm.rank == 1
        refused(lambda: comm.scatter_objects(wrong, 1), "scatter_objects", at_root)
        refused(lambda: comm.alltoall_objects(wrong), "alltoall_objects", True)

    threads(on_each_rank, 2)


@pytest.mark.parametrize("kind", [list, tuple, deque, np.array])
def test_objects_may_be_in_any_sequence(kind):
    def on_each_rank(comm):
        swapped = comm.alltoall_objects(kind([comm.rank, 10 + comm.rank]))
        return comm.scatter_objects(kind([5, 6])), swapped

    assert threads(on_each_rank, 2) == [(5, [0, 1]), (6, [10, 11])]


def test_different_calls_on_objects_are_caught():
    def other_call(comm):
        with pytest.raises(MismatchError, match="_objects but rank"):
            (comm.gather_objects if comm.rank else comm.allgather_objects)(1)

    def other_root(comm):
        with pytest.raises(MismatchError, match="same root"):
            comm.broadcast_object("x", comm.rank)
            comm.barrier()

    for calls in (other_call, other_root):
        threads(calls, 2)


@pytest.mark.parametrize("root", [True, np.int8(1), np.array(1)])
def test_a_root_may_be_any_kind_of_integer(root):
    def on_each_rank(comm):
        mine = [comm.rank, 10 + comm.rank] if comm.rank == 1 else None
        return (
            comm.broadcast_object(comm.rank, root=root),
            comm.gather_objects(comm.rank, root=root),
            comm.reduce_objects(comm.rank, root=root),
            comm.scatter_objects(mine, root=root),
        )

    assert threads(on_each_rank, 2) == [(1, None, None, 1), (1, [0, 1], 1, 11)]


@pytest.mark.parametrize("op", ["sum", None, 3])
def test_an_op_that_is_no_function_is_refused_before_the_gather(op):
    def on_each_rank(comm):
        with pytest.raises(TypeError, match=r"reduce_objects: op is .*pass a function"):
            comm.reduce_objects(1, op=op)
        return comm.allreduce(np.ones(1))[0]

    assert threads(on_each_rank, 2) == [2, 2]
