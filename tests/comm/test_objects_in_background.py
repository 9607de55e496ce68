"""Messages of objects that are sent and received in the background."""

import asyncio
from concurrent.futures import CancelledError

import numpy as np
import pytest

import collalgo
from collalgo import threads, waitall, waitany

LARGE = 20_000  # elements that move as a frame of their own


def thing(rank, number):
    """An object of a rank, with small and large arrays."""
    return {"of": (rank, number), "arrays": [np.full(3, number), np.full(LARGE, rank)]}


def is_thing(found, rank, number):
    assert found["of"] == (rank, number)
    assert (found["arrays"][0] == number).all()
    assert (found["arrays"][1] == rank).all()
    return True


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_objects_arrive_in_the_order_of_their_calls(size):
    def on_each_rank(comm):
        to, source = (comm.rank + 1) % size, (comm.rank - 1) % size
        found = [comm.recv_object_async(source, n % 2) for n in range(4)]
        sent = [
            comm.send_object_async(thing(comm.rank, n), to, n % 2) for n in range(4)
        ]
        assert not any(message.cancel() for message in sent)
        assert waitall(sent) == [None] * 4
        for number, message in enumerate(found):
            is_thing(message.wait(), source, number)
        assert waitany(found) == 0
        return [(message.done(), message.source) for message in found]

    expected = [[(True, (rank - 1) % size)] * 4 for rank in range(size)]
    assert threads(on_each_rank, size, timeout=60) == expected


def test_they_match_calls_that_wait():
    def on_each_rank(comm):
        if comm.rank == 0:
            first = comm.recv_object_async(None, 3)
            comm.barrier()
            second = comm.recv_object(None, 3)  # after the one in the background
            return first.wait()["of"], second
        comm.barrier()
        if comm.rank == 1:
            comm.send_object(thing(1, 7), 0, 3)
            comm.send_object(thing(1, 8)["of"], 0, 3)
        return None

    assert threads(on_each_rank, 3, timeout=60)[0] == ((1, 7), (1, 8))


def test_a_coroutine_awaits_objects_of_two_ranks():
    async def both(comm):
        found = [comm.recv_object_async(rank) for rank in (1, 2)]
        return await asyncio.gather(*(outcome(each) for each in found))

    async def outcome(message):
        return await message

    def on_each_rank(comm):
        if comm.rank == 0:
            return asyncio.run(both(comm))
        return asyncio.run(outcome(comm.send_object_async([comm.rank], 0)))

    assert threads(on_each_rank, 3, timeout=60) == [[[1], [2]], None, None]


def test_a_cancelled_receive_leaves_its_message_to_a_later_one():
    async def cancelled(comm):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(outcome(comm.recv_object_async(1)), 0.01)
        message = comm.recv_object_async(1)
        assert [message.cancel(), message.cancel()] == [True, False]
        with pytest.raises(CancelledError, match="recv_object_async was cancelled"):
            message.wait()
        later = comm.recv_object_async(1)
        comm.barrier()
        found = await later
        assert not later.cancel()
        return found

    async def outcome(message):
        return await message

    def on_each_rank(comm):
        if comm.rank == 0:
            return asyncio.run(cancelled(comm))
        comm.barrier()
        return comm.send_object("text", 0)

    assert threads(on_each_rank, 2, timeout=60) == ["text", None]


class Refuses:
    """An object that cannot be unpickled."""

    def __reduce__(self):
        return refuse, ()


def refuse():
    raise ValueError("not here")


def test_what_fails_is_told_by_the_message():
    def on_each_rank(comm):
        if comm.rank:
            comm.send_object_async(Refuses(), 0)
            comm.send(np.ones(3), 0, 1)
            comm.barrier()
            return
        with pytest.raises(ValueError, match="not here"):
            comm.recv_object_async(1).wait()
        with pytest.raises(collalgo.MismatchError, match="3 elements of float64"):
            comm.recv_object_async(1, 1).wait()
        comm.recv(np.ones(3), 1, 1)  # which the receive above has left
        late = comm.recv_object_async(1, 2, timeout=0.02)
        assert isinstance(late.exception(), collalgo.CollectiveTimeout)
        with pytest.raises(ValueError, match="recv_object_async: source is 2"):
            comm.recv_object_async(2)
        with pytest.raises(ValueError, match="recv_object_async: tag is -1"):
            comm.recv_object_async(1, -1)
        comm.barrier()

    threads(on_each_rank, 2, timeout=60)


def test_the_close_of_a_communicator_ends_what_waits():
    def on_each_rank(comm):
        part = comm.dup()
        message = part.recv_object_async((comm.rank + 1) % 2)
        comm.barrier()
        part.close()
        with pytest.raises((collalgo.CommunicatorClosed, collalgo.PeerFailed)):
            message.wait(30)

    threads(on_each_rank, 2, timeout=60)
