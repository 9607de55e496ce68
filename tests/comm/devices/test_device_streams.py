"""Calls on streams of devices: what waits for what, and graphs."""

import threading

import numpy as np
import pytest

from collalgo import MismatchError
from collalgo.engine.devices.arrays import shadow
from tests.comm.devices.conftest import KINDS
from tests.support.fake_cuda import StandIn


def test_the_host_does_not_wait_for_streams(devices):
    """Twenty calls return on all ranks while the stream of one stands still."""
    returned = threading.Barrier(3)

    def rank(comm, runtime):
        gate = runtime.gate() if comm.rank == 1 else None
        x = runtime.array(np.full(100, 1.0))
        for _ in range(20):
            comm.allreduce(x, "sum")
        returned.wait(30)
        if gate:
            gate.set()
        return runtime.values(x)[0]

    assert devices(rank, 3, "several processes") == [3.0**20] * 3


def test_ranks_on_one_stream_do_not_wait_for_themselves(devices, interpreters):
    """As threads of one process are by default, all on the same stream of a device."""
    shared = StandIn(interpreters=interpreters)

    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        for _ in range(3):
            comm.allreduce(x, "sum")
        return runtime.values(x)[0]

    assert devices(rank, 3, shared=shared) == [27.0] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_the_background_goes_on_beside_the_stream(devices, kind):
    def rank(comm, runtime):
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        works = [comm.allreduce_async(x), comm.allgather_async(x)]
        total, every = (work.wait() for work in works)
        assert all(work.done() for work in works)
        assert total is x
        assert "done" in repr(works[0])
        return runtime.values(total)[0], runtime.values(every).sum()

    assert devices(rank, 3, kind) == [(6.0, 6.0 * 3000)] * 3


def test_a_stream_can_wait_for_a_call_in_the_background(devices):
    """The host goes on, and the stream only when the call has ended."""
    meanwhile = threading.Barrier(2)

    def rank(comm, runtime):
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        gate = runtime.gate() if comm.rank else None
        work = comm.allreduce_async(x)
        assert work.wait_stream() is x
        assert not work.done()
        with pytest.raises(TimeoutError, match="continues in the background"):
            work.wait(0.01)
        meanwhile.wait(30)
        if gate:
            gate.set()
        found = runtime.values(x)[0]
        work.wait(30)
        return found

    assert devices(rank, 2, "several processes") == [3.0, 3.0]


def test_a_stream_of_the_user_that_is_not_the_current_one(devices):
    def rank(comm, runtime):
        other = runtime.aside()
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        comm.allreduce_async(x).wait_stream(other)
        return other.values(x)[0]

    assert devices(rank, 2, "several processes") == [3.0, 3.0]


def test_calls_on_several_streams_keep_their_order(devices):
    """They share flags and scratch, so one must not overtake another."""

    def rank(comm, runtime):
        first, second = runtime.array(np.full(9, 1.0)), runtime.array(np.full(9, 2.0))
        gate = runtime.gate() if comm.rank else None
        works = [comm.allreduce_async(first)]
        comm.allreduce(second)
        works.append(comm.allreduce_async(second))
        if gate:
            gate.set()
        for work in works:
            work.wait()
        return runtime.values(first)[0], runtime.values(second)[0]

    assert devices(rank, 3, "several processes") == [(3.0, 18.0)] * 3


def test_what_fails_in_the_background_is_told_when_it_is_waited_for(devices):
    def rank(comm, runtime):
        comm.allreduce(runtime.array(np.ones(10)))  # the first looks at the devices
        work = comm.allreduce_async(runtime.array(np.ones(10 + comm.rank)))
        for wait in (work.wait, work.wait_stream):
            with pytest.raises(MismatchError) as caught:
                wait()
        return str(caught.value)

    assert all("10" in m and "11" in m for m in devices(rank, 2))


def test_calls_in_a_graph_are_replayed_without_a_word(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        y = runtime.array(np.zeros((3, 100)))
        comm.allreduce(x)  # what memory they need they have now
        with runtime.capture() as graph:
            comm.allreduce(x)
            comm.allgather(x, out=y)
        assert runtime.values(x)[0] == 3.0
        for _ in range(4):
            runtime.launch(graph)
        assert (runtime.values(y) == 3.0**5).all()
        comm.allreduce(x)
        return runtime.values(x)[0]

    assert devices(rank, 3, "several processes") == [3.0**6] * 3


def test_what_goes_by_way_of_the_host_cannot_be_in_a_graph(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        with (
            runtime.capture(),
            pytest.raises(RuntimeError, match="a graph cannot capture"),
        ):
            comm.allreduce(x)

    devices(rank, 2, "by way of the host")


def test_a_copy_between_arrays_waits_for_the_stream_of_its_source():
    here, there = StandIn(), StandIn()
    gate = there.gate()
    source, target = (
        shadow(runtime, runtime.memory(runtime.array(np.full(4, value)), ""))
        for runtime, value in ((there, 1.0), (here, 2.0))
    )
    target[...] = source
    gate.set()
    assert here.values(target.on_device()).tolist() == [1.0] * 4
