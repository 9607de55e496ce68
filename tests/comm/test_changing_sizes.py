"""Calls of ever new sizes through one communicator, against NumPy."""

import gc
import resource
import time
from threading import Barrier, Thread

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import ALGORITHMS, CollalgoError, threads
from collalgo.comm.current import runner_of
from collalgo.engine.call import Call
from tests.support.call_cases import COLLECTIVES, DTYPES, check, counts, data, run
from tests.support.leisure import at_leisure

calls = st.tuples(
    st.sampled_from(COLLECTIVES),
    counts,
    st.sampled_from(DTYPES),
    st.sampled_from(["sum", "max", "min"]),
    st.integers(0, 100),  # the root, and the seed of counts
    st.sampled_from(["plain", "strided", "background", "persistent"]),
)

splits = st.tuples(st.just("split"), st.integers(0, 100))


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 5, 8], {2, 3}))
@settings(max_examples=12)
@given(
    sequence=st.lists(st.one_of(calls, calls, calls, splits), min_size=5, max_size=25)
)
def test_each_call_of_a_sequence_is_right(size, sequence):
    threads(lambda comm: run(comm, sequence), size, timeout=60)


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 5, 7, 8, 12, 16, 17], {3, 5}))
def test_every_algorithm_is_right_after_another_length(size):
    """Lengths with and without empty messages, shorter and longer than before."""
    names = [
        (row.collective, row.name)
        for row in ALGORITHMS
        if row.collective in ("allreduce", "allgather", "broadcast", "reduce")
        and row.obstacle(size) is None
    ]

    def each(comm):
        for collective, name in names:
            for count in (1000, 1, 0, size, 40_000, size - 1, 7, 1001):
                arrays = [data(r, count, np.dtype(np.int64)) for r in range(size)]
                wanted = {
                    "allreduce": sum(arrays),
                    "reduce": sum(arrays) if comm.rank == 0 else None,
                    "allgather": np.stack(arrays),
                    "broadcast": arrays[0],
                }[collective]
                mine = arrays[comm.rank].copy()
                found = getattr(comm, collective)(mine, algorithm=name)
                check((name, count), found, wanted)

    threads(each, size, timeout=120)


def test_records_tell_the_lengths_and_plans_of_past_calls():
    """Their programs have been filled in for other calls since."""
    lengths = [10, 1000, 3, 0, (2, 5, 1), (4, 0, 4), (5, 2, 1), (2, 2, 2)]

    def run(comm):
        for length in lengths:
            if isinstance(length, int):
                comm.allreduce(np.ones(length), algorithm="ring")
            else:
                comm.allgatherv(np.ones(length[comm.rank]), list(length))
        recorder = runner_of(comm).recorder
        for number, length in enumerate(lengths, 1):
            single = isinstance(length, int)
            collective = "allreduce" if single else "allgather"
            call = Call(collective, np.dtype(float), length if single else 0)
            counts = None if single else length
            layout = call._replace(counts=counts).layout(comm.size)
            plan = recorder.program(number).template.plan(layout)
            np.testing.assert_array_equal(recorder.plan(number).pieces, plan.pieces)
            assert recorder.records()[number - 1]["count"] == layout.count
        return len({id(recorder.program(i + 1)) for i in range(len(lengths))})

    assert threads(run, 3) == [2] * 3


def test_a_call_in_another_thread_does_not_change_the_program_of_one_under_way():
    """It is an error, and the first call must still be right."""
    begun = Barrier(2)

    def run(comm):
        x = np.full(1 << 16, comm.rank + 1.0)
        if comm.rank == 0:
            other = Thread(target=refused, args=(comm,))
            other.start()
            comm.allreduce(x)
            other.join()
        else:
            begun.wait(60)
            comm.allreduce(x)
        assert (x == 3).all()

    def refused(comm):
        while [r["state"] for r in runner_of(comm).recorder.records()] != ["under way"]:
            time.sleep(1e-3)
        with pytest.raises(CollalgoError, match="in another thread"):
            comm.allreduce(np.ones(7))
        begun.wait(60)

    threads(run, 2, timeout=60)


def soak(comm, number):
    """Calls of random sizes, 13 in four rounds, and the peak of the memory.

    It is that after a tenth, and at the end; the long form makes a million calls.
    """
    rng = np.random.default_rng(5)
    sizes = (2 ** rng.uniform(0, 12, number)).astype(int).tolist()
    x, everyone = np.ones(1 << 13), np.empty(comm.size << 13)
    peaks = []
    for part in (sizes[: number // 10], sizes[number // 10 :]):
        for i, n in enumerate(part):
            comm.allreduce(x[:n], "max")
            comm.allgather(x[:n], out=everyone[: comm.size * n].reshape(comm.size, n))
            comm.allgatherv(x[: n + comm.rank], [n + r for r in range(comm.size)])
            if i % 4 == 0:
                comm.broadcast_async(x[:n], root=n % comm.size).wait()
        gc.collect()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    kinds = runner_of(comm).programs._kinds
    return peaks, len(kinds)


@pytest.mark.parametrize("number", at_leisure([2_000, 310_000], {2_000}))
def test_memory_does_not_grow_with_the_number_of_sizes(number):
    for (before, after), kinds in threads(lambda c: soak(c, number), 2, timeout=3000):
        assert after - before < 8192, "KiB"
        assert kinds < 10
