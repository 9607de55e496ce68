"""Calls in the background, awaited in event loops of asyncio."""

import asyncio

import numpy as np
import pytest

from collalgo import MismatchError, threads


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
