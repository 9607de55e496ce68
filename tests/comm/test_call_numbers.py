"""The numbers of calls that users see: one for each call that they make."""

import re
import time
from threading import Barrier, Thread

import numpy as np
import pytest

from collalgo import CollalgoError, ExactSum, MismatchError, Op, Topology, threads
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.dump import named_records
from collalgo.elastic import State

LARGE = {"a": np.zeros(1 << 17), "b": [1, 2]}

#: Calls that the library makes as several.
CALLS = {
    "allgatherv": lambda c: c.allgatherv(np.ones((c.rank + 1, 2))),
    "gatherv": lambda c: c.gatherv(np.ones(c.rank + 1), root=1),
    "scatterv": lambda c: c.scatterv(np.ones(1 if c.rank else 3)),
    "alltoallv": lambda c: c.alltoallv(np.ones(2), [1, 1]),
    "agreed counts": lambda c: c.alltoallv(np.ones(2), [1, 1], [1, 1]),
    "op of the user": lambda c: c.allreduce(np.ones(3), np.logaddexp),
    "long elements": lambda c: c.allreduce(np.zeros((2, 3), "V12"), Op(first)),
    "mean of integers": lambda c: c.allreduce(np.ones(3, int), "avg"),
    "packed": lambda c: c.allreduce(np.ones((4, 4))[:, ::2]),
    "in the background": lambda c: c.allreduce_async(np.ones(3)).wait(),
    "persistent": lambda c: c.persistent_allreduce(np.ones(3))(),
    "broadcast_object": lambda c: c.broadcast_object(LARGE),
    "allgather_objects": lambda c: c.allgather_objects(LARGE),
    "gather_objects": lambda c: c.gather_objects(LARGE, root=1),
    "reduce_objects": lambda c: c.reduce_objects([1]),
    "scatter_objects": lambda c: c.scatter_objects([LARGE, 2], root=1),
    "alltoall_objects": lambda c: c.alltoall_objects([LARGE, 3]),
    "split": lambda c: c.split(0),
    "dup": lambda c: c.dup(),
    "sync": lambda c: State(x=LARGE["a"]).sync(c),
    "replan": lambda c: c.replan(),
    "Topology.of": Topology.of,
    "ExactSum.allreduce": lambda c: ExactSum(3, float).allreduce(c),
    "like=None": lambda c: c.broadcast(np.ones(3), like=None),
}


def first(a, b):
    return a


def check_number(comm, number):
    """Check the number of the next call in its record and in an error."""
    with pytest.raises(MismatchError) as caught:
        comm.allreduce(np.ones(3 + comm.rank), algorithm="ring")
    found = re.match(r"allreduce #(\d+): ", str(caught.value))
    assert (int(found[1]), caught.value.sequence) == (number, number)
    record = named_records(runner_of(comm).recorder)[-1]
    assert (record["number"], record["state"]) == (number, "failed")


def test_each_call_of_the_user_has_one_number():
    def rank(comm):
        for number, (name, call) in enumerate(CALLS.items(), 1):
            call(comm)
            assert runner_of(comm).recorder.calls == number, name
        check_number(comm, len(CALLS) + 1)

    threads(rank, 2)


def refuse_calls(comm, begun):
    """In another thread, see that calls are refused while a barrier is under way."""
    recorder = runner_of(comm).recorder
    try:
        while recorder.calls % 2 == 0:
            time.sleep(1e-3)
        for call in (comm.allreduce, comm.allreduce_async):
            with pytest.raises(CollalgoError, match="in another thread"):
                call(np.ones(7))
    finally:
        begun.wait(60)


def test_another_thread_is_refused_before_and_after_calls_in_the_background():
    """Its calls are no calls of the rank."""
    begun = Barrier(2)

    def rank(comm):
        for _ in range(2):
            other = Thread(target=refuse_calls, args=(comm, begun))
            if comm.rank == 0:
                other.start()
            else:
                begun.wait(60)
            comm.barrier()
            if comm.rank == 0:
                other.join()
            comm.allreduce_async(np.ones(3)).wait()
        check_number(comm, 5)

    threads(rank, 2, timeout=60)
