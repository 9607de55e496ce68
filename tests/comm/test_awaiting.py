"""Calls in the background, awaited in event loops of asyncio."""

import asyncio
from concurrent.futures import CancelledError

import numpy as np
import pytest

from collalgo import MismatchError, threads, waitall


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 40_000])
def test_calls_and_messages_can_be_awaited(size, count):
    async def calls(comm):
        x = np.full(count, comm.rank + 1.0)
        assert await comm.allreduce_async(x) is x
        assert (x == size * (size + 1) / 2).all()
        others = await asyncio.gather(
            comm.allgather_async(np.array([comm.rank])), comm.barrier_async()
        )
        assert others[0].ravel().tolist() == list(range(size))
        sent = comm.isend(x, (comm.rank + 1) % size)
        found = await comm.irecv(np.empty(count), (comm.rank - 1) % size)
        assert await sent is x
        np.testing.assert_array_equal(found, x)

    threads(lambda comm: asyncio.run(calls(comm)), size)


def test_a_call_that_has_ended_can_be_awaited():
    async def again(work):
        return await work, await work

    def on_each_rank(comm):
        work = comm.allreduce_async(np.ones(1))
        work.wait()
        assert [x.tolist() for x in asyncio.run(again(work))] == [[2.0], [2.0]]

    threads(on_each_rank, 2)


def test_the_event_loop_goes_on_while_a_call_waits_for_a_rank():
    async def waiting(comm):
        turns = 0
        work = asyncio.ensure_future(end_of(comm.recv_later))
        while not turns:
            await asyncio.sleep(0)
            turns += 1
        comm.send(np.ones(1), 1)
        return (await work).tolist()

    async def end_of(begin):
        return await begin()

    def on_each_rank(comm):
        if comm.rank:
            comm.send(comm.recv(np.empty(1), 0) + 1, 0)
            return None
        comm.recv_later = lambda: comm.irecv(np.empty(1), 1)
        return asyncio.run(waiting(comm))

    assert threads(on_each_rank, 2)[0] == [2.0]


def test_an_error_is_raised_where_the_call_is_awaited():
    async def wrong(comm):
        with pytest.raises(MismatchError):
            await comm.allreduce_async(np.ones(2 + comm.rank))

    threads(lambda comm: asyncio.run(wrong(comm)), 2)


@pytest.mark.parametrize("source", [0, None])
@pytest.mark.parametrize("count", [1, 40_000])
def test_a_cancelled_task_leaves_its_message_to_a_later_receive(count, source):
    async def cancelled(comm):
        late, found = np.zeros(count), np.zeros(count)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(end_of(comm.irecv(late, source, 5)), 0.01)
        comm.send(np.ones(1), 0)
        assert await comm.irecv(found, source, 5) is found
        return late.any(), found.all()

    async def end_of(message):
        return await message

    def on_each_rank(comm):
        if comm.rank:
            return asyncio.run(cancelled(comm))
        comm.recv(np.empty(1), 1)
        comm.send(np.ones(count), 1, 5)
        return None

    assert threads(on_each_rank, 2) == [None, (False, True)]


def test_a_coroutine_that_is_closed_cancels_its_receive():
    async def closed(comm):
        message = comm.irecv(np.zeros(1), 1)
        steps = message.__await__()
        next(steps)
        steps.close()
        with pytest.raises(CancelledError):
            message.wait(0)

    def on_each_rank(comm):
        if comm.rank == 0:
            asyncio.run(closed(comm))

    threads(on_each_rank, 2)


def test_only_a_receive_that_no_message_has_reached_is_cancelled():
    def on_each_rank(comm):
        if comm.rank == 0:
            messages = [comm.irecv(np.zeros(1), 1, tag) for tag in range(3)]
            ended = []
            messages[1].add_done_callback(ended.append)
            assert [messages[1].cancel(), messages[1].cancel()] == [True, False]
            assert messages[1].done()
            assert ended == [messages[1]]
            comm.barrier()
            assert [messages[tag].wait() for tag in (0, 2)] == [0, 2]
            assert not messages[0].cancel()
            with pytest.raises(CancelledError, match="irecv was cancelled"):
                messages[1].wait()
            return comm.recv(np.zeros(1), 1, 1).item()
        comm.barrier()
        sent = [comm.isend(np.full(1, float(tag)), 0, tag) for tag in range(3)]
        assert not any(message.cancel() for message in sent)
        return waitall(sent) and None

    assert threads(on_each_rank, 2) == [1, None]


def test_a_cancelled_task_leaves_its_call_to_go_on():
    async def cancelled(comm):
        x = np.ones(1)
        work = comm.allreduce_async(x)
        task = asyncio.ensure_future(end_of(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        comm.send(np.ones(1), 1)
        return work.wait().tolist()

    async def end_of(work):
        return await work

    def on_each_rank(comm):
        if comm.rank:
            comm.recv(np.empty(1), 0)
            return comm.allreduce(np.ones(1)).tolist()
        return asyncio.run(cancelled(comm))

    assert threads(on_each_rank, 2) == [[2.0], [2.0]]
