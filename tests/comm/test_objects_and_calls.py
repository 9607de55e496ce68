"""Code of the user that a call on objects runs: it makes calls itself, or fails."""

import time
import weakref

import numpy as np
import pytest

from collalgo import CollalgoError, MismatchError, threads
from collalgo.comm.frame_exchange import FrameExchange
from collalgo.comm.object_frames import LARGE

#: The communicator of the rank that unpickles.
RECEIVER = []


class Reduced:
    """An object whose pickle is the result of a call."""

    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return np.array, (self.call(),)


class CallsBack:
    """An object whose receiver makes a call as it unpickles it."""

    def __reduce__(self):
        return call_of_receiver, ()


def call_of_receiver():
    RECEIVER[0].barrier()


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce(np.ones(1)),
        lambda comm: comm.allreduce_async(np.ones(1)).wait(),
        lambda comm: [float(sum(comm.allgather_objects(1)))],
        lambda comm: [float(sum(comm.allgather_objects_async(1).wait()))],
    ],
)
def test_a_pickle_in_the_background_may_make_calls(call):
    def on_each_rank(comm):
        works = [
            comm.allgather_objects_async(Reduced(lambda: call(comm))) for _ in range(2)
        ]
        return [np.concatenate(work.wait()).tolist() for work in works]

    assert threads(on_each_rank, 2, timeout=20) == [[[2.0, 2.0]] * 2] * 2


REFUSED = "in which a signal handler.* an object that is unpickled makes this one"


def test_a_call_by_an_object_that_is_unpickled_in_the_background_is_refused():
    def on_each_rank(comm):
        if comm.rank == 1:
            RECEIVER[:] = [comm]
        work = comm.broadcast_object_async(CallsBack())
        if comm.rank == 1:
            with pytest.raises(CollalgoError, match=REFUSED):
                work.wait()
        return comm.allreduce(np.ones(1)).tolist()

    assert threads(on_each_rank, 2, timeout=20) == [[2.0], [2.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce(np.ones(1)),
        lambda comm: comm.allreduce_async(np.ones(1)).wait(),
        lambda comm: comm.split(0),
    ],
)
def test_a_call_by_an_op_in_the_background_is_refused(call):
    def on_each_rank(comm):
        part = comm.dup()
        work = part.reduce_objects_async(1, op=lambda *_: call(part))
        if comm.rank == 0:
            with pytest.raises(CollalgoError, match=REFUSED):
                work.wait()
        else:
            work.wait()

    threads(on_each_rank, 2, timeout=20)


class Calling:
    """An array whose code makes a call."""

    def __init__(self, call):
        self.call, self.array = call, np.ones(4)

    @property
    def __array_interface__(self):
        self.call()
        return self.array.__array_interface__


@pytest.mark.parametrize("form", ["allreduce_async", "persistent_allreduce"])
@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce(np.ones(1)),
        lambda comm: comm.allreduce_async(np.ones(1)),
        lambda comm: comm.allgatherv(np.ones(comm.rank)),
        lambda comm: comm.persistent_allreduce(np.ones(1)),
    ],
)
def test_a_call_by_an_array_that_a_call_in_the_background_reads_is_refused(call, form):
    def on_each_rank(comm):
        with pytest.raises(CollalgoError, match="an array that is read"):
            getattr(comm, form)(Calling(lambda: call(comm)))
        return comm.allreduce(np.ones(1)).tolist()

    assert threads(on_each_rank, 2, timeout=20) == [[2.0], [2.0]]


def test_an_array_may_make_calls_before_the_call_that_reads_it():
    def on_each_rank(comm):
        array = Calling(lambda: comm.allreduce(np.ones(1)))
        comm.allreduce(array)
        return array.array.tolist()

    assert threads(on_each_rank, 2, timeout=20) == [[2.0] * 4] * 2


def test_a_call_by_an_op_of_arrays_in_the_background_is_refused():
    def on_each_rank(comm):
        def calls(a, b):
            comm.barrier()
            return a

        with pytest.raises(CollalgoError, match=REFUSED):
            comm.allreduce_async(np.ones(1), op=calls).wait()

    threads(on_each_rank, 2, timeout=20)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_at_the_end_of_an_earlier_call_reaches_the_main_thread(error):
    def raises(*_):
        raise error(7)

    def on_each_rank(comm):
        earlier = comm.reduce_objects_async(1, op=raises)
        comm.allreduce_async(np.ones(1)).wait()
        if comm.rank == 0:
            assert isinstance(earlier.exception(), error)

    with pytest.raises(error) as raised:
        threads(on_each_rank, 2, timeout=20)
        time.sleep(1)  # the main thread may come late
    assert raised.value.args == (7,)


def test_a_failure_in_the_transfer_of_objects_is_reported_at_the_end(
    monkeypatch, caplog
):
    def check(exchange):
        if exchange.rank == 1:
            raise ValueError("no transfer here")

    def on_each_rank(comm):
        part = comm.dup()
        work = part.allgather_objects_async(1, timeout=0.2)
        while not work.done():
            time.sleep(0.01)
        comm.barrier()
        part.close()

    monkeypatch.setattr(FrameExchange, "check", check)
    threads(on_each_rank, 2, timeout=20)
    assert "rank 0: allgather_objects #1, made in the background at" in caplog.text
    assert "rank 1: allgather_objects #1, made in the background at" in caplog.text


def test_a_failed_call_keeps_no_objects():
    def on_each_rank(comm):
        array = np.zeros(LARGE, np.int8)
        found = weakref.ref(array)
        if comm.rank == 0:
            work = comm.allgather_objects_async(array)
            assert isinstance(work.exception(), MismatchError)
            del array
            assert found() is None
            return
        with pytest.raises(MismatchError):
            comm.barrier()

    threads(on_each_rank, 2, timeout=20)
