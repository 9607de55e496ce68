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
from tests.conftest import at_leisure

pytestmark = pytest.mark.parallel

REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")
COLLECTIVES = (
    *(*REDUCING, "broadcast", "allgather", "alltoall", "gather", "scatter"),
    *("allgatherv", "alltoallv", "gatherv", "scatterv", "barrier"),
)
#: Around the borders of cache lines, of inline messages, slices and short cuts.
COUNTS = (0, 1, 2, 3, 5, 7, 8, 12, 16, 17, 33, 63, 64, 65, 511, 4099, 16387, 70001)
DTYPES = ("int64", "int8", "uint16", "float64", "complex128")

counts = st.one_of(st.sampled_from(COUNTS), st.integers(0, 3000))
calls = st.tuples(
    st.sampled_from(COLLECTIVES),
    counts,
    st.sampled_from(DTYPES),
    st.sampled_from(["sum", "max", "min"]),
    st.integers(0, 100),  # the root, and the seed of counts
    st.sampled_from(["plain", "strided", "background", "persistent"]),
)


def data(rank, count, dtype):
    return (np.arange(count) % 7 + 3 * (rank + 1)).astype(dtype)


def uneven(seed, size, most):
    """Counts of blocks, some of them 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, most + 1, size) * rng.integers(0, 2, size)


def reduced(op, arrays):
    return {"sum": np.add, "max": np.maximum, "min": np.minimum}[op].reduce(arrays)


class Case:
    """A call of one rank: its arguments, and what it must give."""

    def __init__(self, comm, call):
        self.name, count, dtype, op, self.seed, _ = call
        self.rank, self.size = comm.rank, comm.size
        self.root = self.seed % self.size
        self.dtype = np.dtype(dtype)
        self.op = op if self.dtype.kind != "c" else "sum"
        self.count = count if self.name in REDUCING else min(count, 9000 // self.size)
        self.at_root = self.rank == self.root

    def data(self, rank, count):
        return data(rank, count, self.dtype)

    @property
    def everyone(self):
        return [self.data(r, self.count) for r in range(self.size)]

    @property
    def shares(self):
        return uneven(self.seed, self.size, self.count)

    def blocks(self, counts):
        return [self.data(r, int(count)) for r, count in enumerate(counts)]

    def prepared(self):
        """Positional arguments, others, and what this rank must get, or None."""
        return getattr(self, self.name)()

    def allreduce(self):
        total = reduced(self.op, self.everyone)
        return (self.everyone[self.rank],), {"op": self.op}, total

    def reduce(self):
        args, more, total = self.allreduce()
        return args, {**more, "root": self.root}, total if self.at_root else None

    def prefix(self, last):
        first = self.everyone[:last]
        total = reduced(self.op, first) if first else None
        return (self.everyone[self.rank],), {"op": self.op}, total

    def scan(self):
        return self.prefix(self.rank + 1)

    def exscan(self):
        return self.prefix(self.rank)

    def reduce_scatter(self):
        shares = self.shares
        arrays = [self.data(r, int(shares.sum())) for r in range(self.size)]
        wanted = np.split(reduced(self.op, arrays), np.cumsum(shares))[self.rank]
        more = {"op": self.op, "counts": shares.tolist()}
        return (arrays[self.rank],), more, wanted

    def broadcast(self):
        return (self.everyone[self.rank], self.root), {}, self.everyone[self.root]

    def allgather(self):
        return (self.everyone[self.rank],), {}, np.stack(self.everyone)

    def gather(self):
        wanted = np.stack(self.everyone) if self.at_root else None
        return (self.everyone[self.rank], self.root), {}, wanted

    def alltoall(self):
        shape = self.size, self.count
        tables = [np.resize(self.data(r, 64), shape) for r in range(self.size)]
        return (tables[self.rank],), {}, np.stack([t[self.rank] for t in tables])

    def scatter(self):
        table = np.resize(self.data(self.root, 64), (self.size, self.count))
        given = table if self.at_root else np.zeros(self.count, self.dtype)
        return (given, self.root), {}, table[self.rank]

    def allgatherv(self):
        blocks = self.blocks(self.shares)
        given = blocks[self.rank], self.shares.tolist()
        return given, {}, np.concatenate(blocks)

    def gatherv(self):
        args, more, wanted = self.allgatherv()
        return (*args, self.root), more, wanted if self.at_root else None

    def scatterv(self):
        blocks = self.blocks(self.shares)
        mine = blocks[self.rank]
        given = np.concatenate(blocks) if self.at_root else np.zeros_like(mine)
        return (given, self.shares.tolist(), self.root), {}, mine

    def alltoallv(self):
        table = uneven(self.seed, self.size**2, self.count).reshape(self.size, -1)
        rows = [
            np.split(data_, np.cumsum(counts))
            for data_, counts in zip(self.blocks(table.sum(1)), table, strict=True)
        ]
        mine = self.blocks(table.sum(1))[self.rank]
        return (mine, table), {}, np.concatenate([row[self.rank] for row in rows])

    def barrier(self):
        return (), {}, None


def strided(array):
    """The same elements with gaps between them."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


def make(comm, call):
    """Make a call in its way; a function that gives what it returned, and its due."""
    args, more, wanted = Case(comm, call).prepared()
    name, way = call[0], call[-1]
    if way == "strided" and args:
        args = strided(args[0]), *args[1:]
    if way == "background":
        return getattr(comm, f"{name}_async")(*args, **more).wait, wanted
    if way == "persistent" and hasattr(comm, f"persistent_{name}"):
        again = getattr(comm, f"persistent_{name}")(*args, **more)
        if name in REDUCING:  # which would sum the sum
            return again, wanted
        again()
        return again, wanted
    found = getattr(comm, name)(*args, **more)
    return lambda: found, wanted


def run(comm, sequence):
    pending = []
    for call in sequence:
        pending.append((call, *make(comm, call)))
        if call[-1] != "background":
            for made, found, wanted in pending:
                check(made, found(), wanted)
            pending = []
    for made, found, wanted in pending:
        check(made, found(), wanted)


def check(call, found, wanted):
    if wanted is not None:
        np.testing.assert_array_equal(found, wanted, str(call))


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 5, 8], {2, 3}))
@settings(max_examples=12)
@given(sequence=st.lists(calls, min_size=5, max_size=25))
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
    """Calls of random sizes; the peak of the memory after a tenth, and at the end."""
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


@pytest.mark.parametrize("number", at_leisure([2_000, 300_000], {2_000}))
def test_memory_does_not_grow_with_the_number_of_sizes(number):
    for (before, after), kinds in threads(lambda c: soak(c, number), 2, timeout=3000):
        assert after - before < 8192, "KiB"
        assert kinds < 10
