"""Ops of the user: right in every call, in the order of the ranks."""

import ctypes
import subprocess
import sys
from functools import reduce

import numpy as np
import pytest

import collalgo
from collalgo import AlgorithmNotApplicable, Op, threads

SIZES = [1, 2, 3, 5, 7, 8, 12, 16]
COUNTS = [0, 1, 7, 3000]
MATRIX = np.dtype([("row", "u4", 2), ("column", "u4", 2)])
LARGE = np.dtype([("m", "u4", (5, 5))])  # of 100 bytes


def matrices(left, right):
    """The product of matrices modulo 2**32, which is associative and exact."""
    a = np.stack([left["row"], left["column"]], axis=1)
    b = np.stack([right["row"], right["column"]], axis=1)
    found = np.empty_like(left)
    product = a @ b
    found["row"], found["column"] = product[:, 0], product[:, 1]
    return found


def large(left, right):
    found = np.empty_like(left)
    found["m"] = left["m"] @ right["m"]
    return found


OPS = [
    (np.hypot, np.dtype(np.float64)),
    (np.logaddexp, np.dtype(np.float32)),
    (Op(matrices), MATRIX),
    (Op(large), LARGE),
]


def inputs_of(dtype, size, count):
    rng = np.random.default_rng(count)
    if dtype.names is None:
        return list(rng.normal(size=(size, count)).astype(dtype))
    words = dtype.itemsize // 4
    table = rng.integers(0, 1 << 31, (size, count, words), np.uint32)
    return [row.reshape(-1).view(dtype) for row in table]


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.names is None:
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        assert found.tobytes() == expected.tobytes()


def function_of(op):
    return op.function if isinstance(op, Op) else op


def reduce_all(comm, op, inputs):
    """Make every call that reduces all contributions."""
    rank, size = comm.rank, comm.size
    total, mine = reduce(function_of(op), inputs), inputs[rank]
    root = size // 2
    same(comm.allreduce(mine.copy(), op), total)
    same(comm.allreduce(mine, op, out=np.empty_like(mine)), total)
    same(comm.allreduce(mine.copy(), op, reproducible=True), total)
    found = comm.reduce(mine.copy(), op, root)
    assert (found is None) == (rank != root)
    if rank == root:
        same(found, total)
    same(comm.reduce_scatter(mine, op), np.array_split(total, size)[rank])
    counts = [0] * (size - 1) + [len(mine)]
    same(comm.reduce_scatter(mine, op, counts), total[: counts[rank] and None])


def scan_all(comm, op, inputs):
    """Make every call that reduces the contributions of the first ranks."""
    function, rank, mine = function_of(op), comm.rank, inputs[comm.rank]
    same(comm.scan(mine.copy(), op), reduce(function, inputs[: rank + 1]))
    before = reduce(function, inputs[:rank]) if rank else mine
    same(comm.exscan(mine.copy(), op), before)


def reduce_later(comm, op, inputs):
    """Make the calls that are prepared."""
    total, mine = reduce(function_of(op), inputs), inputs[comm.rank]
    strided = np.repeat(mine, 2)[::2]
    same(comm.allreduce_async(strided, op).wait(), total)
    again = mine.copy()
    call = comm.persistent_allreduce(again, op)
    same(call(), total)
    again[...] = mine
    same(call.start().wait(), total)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("op", "dtype"), OPS, ids=lambda given: str(given)[:12])
def test_an_op_of_the_user_is_right_in_every_call(op, dtype, size):
    def on_each_rank(comm):
        for count in COUNTS:
            if count < 100 or dtype is not LARGE:
                inputs = inputs_of(dtype, size, count)
                reduce_all(comm, op, inputs)
                scan_all(comm, op, inputs)
                reduce_later(comm, op, inputs)

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_every_algorithm_combines_an_op_that_commutes(size):
    op = Op(lambda a, b: a ^ b, commute=True, name="xor")
    inputs = list(np.random.default_rng(1).integers(0, 1 << 40, (size, 50)))
    total = np.bitwise_xor.reduce(inputs)

    def on_each_rank(comm):
        for row in collalgo.ALGORITHMS:
            if row.collective == "allreduce" and row.size_obstacle(size) is None:
                same(
                    comm.allreduce(inputs[comm.rank].copy(), op, algorithm=row.name),
                    total,
                )

    threads(on_each_rank, size, timeout=60)


def test_algorithms_that_change_the_order_refuse_an_op_that_does_not_commute():
    def on_each_rank(comm):
        x = np.ones(4)
        for name, call in (("ring", comm.allreduce), ("binomial", comm.reduce)):
            with pytest.raises(AlgorithmNotApplicable, match=name):
                call(x, np.arctan2, algorithm=name)
        comm.allreduce(x, np.arctan2, algorithm="linear")

    threads(on_each_rank, 3, timeout=60)


def test_a_compiled_op_is_called():
    form = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    @form
    def digits(left, right, count):
        kind = ctypes.POINTER(ctypes.c_int64)
        to, other = ctypes.cast(left, kind), ctypes.cast(right, kind)
        for i in range(count):
            to[i] = 10 * to[i] + other[i]

    op = Op(digits, dtype="int64", name="digits")

    def on_each_rank(comm):
        x = np.full(3000, comm.rank + 1)
        assert (comm.allreduce(x, op) == 1234).all()
        with pytest.raises(
            TypeError, match="op 'digits' is for int64, not for float64"
        ):
            comm.allreduce(np.ones(3), op)

    threads(on_each_rank, 4, timeout=60)
    with pytest.raises(TypeError, match="needs the dtype"):
        Op(digits)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_minloc_and_maxloc_give_the_index_of_the_extreme_value(size):
    rng = np.random.default_rng(size)
    for value, index in (("f8", "i8"), ("f4", "i4"), ("f8", "i4"), ("i2", "u1")):
        dtype = np.dtype([("value", value), ("rank", index)])
        inputs = np.empty((size, 40), dtype)
        inputs["value"] = rng.integers(0, 3, inputs.shape)
        inputs["rank"] = np.arange(size)[:, np.newaxis]
        if dtype["value"].kind == "f":
            inputs["value"][size // 2, ::5] = np.nan

        def on_each_rank(comm, inputs=inputs):
            for op, function in (("minloc", np.argmin), ("MAXLOC", np.argmax)):
                found = comm.allreduce(inputs[comm.rank].copy(), op)
                best = function(inputs["value"], axis=0)
                assert found["rank"].tolist() == best.tolist()
                np.testing.assert_array_equal(
                    found["value"], inputs["value"][best, range(40)]
                )

        threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_replace_and_no_op_give_the_last_and_the_first_contribution(size):
    def on_each_rank(comm):
        for x in (np.array([comm.rank]), np.array([f"rank{comm.rank}"])):
            assert comm.allreduce(x.copy(), "replace")[0] in (
                size - 1,
                f"rank{size - 1}",
            )
            assert comm.allreduce(x.copy(), "no_op")[0] in (0, "rank0")

    threads(on_each_rank, size, timeout=60)


def test_an_exscan_gives_rank_0_the_identity():
    op = Op(np.multiply, name="times", commute=True, identity=1)

    def on_each_rank(comm):
        found = comm.exscan(np.full(3, 2.0), op)
        assert found.tolist() == [2.0**comm.rank] * 3
        found = comm.exscan_async(np.full(3, 2.0), op).wait()
        assert found.tolist() == [2.0**comm.rank] * 3

    threads(on_each_rank, 5, timeout=60)


def test_a_bucket_reduces_by_an_op_of_the_user():
    def on_each_rank(comm):
        x, y = np.full(3, 3.0), np.full(2, 4.0)
        with comm.bucket(np.hypot) as bucket:
            bucket.allreduce(x)
            bucket.allreduce(y)
        np.testing.assert_allclose([x[0], y[0]], np.sqrt(comm.size) * np.array([3, 4]))

    threads(on_each_rank, 4, timeout=60)


def test_a_function_may_keep_its_arguments():
    kept = []

    def add(left, right):
        kept.append((left, right.copy(), right))
        return left + right

    def on_each_rank(comm):
        comm.allreduce(np.ones(100), add)
        comm.barrier()
        comm.allreduce(np.full(100, 7.0))

    threads(on_each_rank, 3, timeout=60)
    assert kept
    assert all((a == b).all() for _, a, b in kept)


OF_MPI4PY = """
import collalgo, numpy as np
from mpi4py import MPI

def digits(left, right, _):
    left, right = (np.frombuffer(each, np.int64) for each in (left, right))
    right[:] = 10 * left + right

ordered = MPI.Op.Create(digits, commute=False)
found = collalgo.threads(lambda comm: comm.scan(np.array([comm.rank] * 3), ordered), 5)
print([int(each[0]) for each in found], {len(set(each.tolist())) for each in found})
"""


def test_an_op_of_mpi4py_is_called_in_the_order_of_the_ranks():
    pytest.importorskip("mpi4py")
    done = subprocess.run(
        [sys.executable, "-c", OF_MPI4PY], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[0, 1, 12, 123, 1234] {1}\n", done.stderr
