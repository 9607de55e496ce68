"""Elements of any fixed size: moved as they are, reduced where that has a meaning."""

import numpy as np
import pytest

from collalgo import MismatchError, threads
from collalgo.engine.dtypes import MOVED
from tests.support.oracle import UFUNCS, dtype_of

RECORD = [("x", "f4", 2), ("when", "M8[s]"), ("name", "U3")]
DTYPES = [
    *map(np.dtype, ["M8[s]", "m8[ns]", "S5", "U3", "V7", ">i4", ">c16", "g", "G"]),
    np.dtype(RECORD),
    np.dtype("u1,f8", align=True),
    np.dtype(">f4,i2"),
    *map(dtype_of, MOVED),
]


def is_long(dtype):
    return dtype.type in (np.longdouble, np.clongdouble)


def elements(dtype, count, seed):
    """Elements of any bytes, but such that equal ones have equal bytes."""
    rng = np.random.default_rng(seed)
    if is_long(dtype):
        return (rng.normal(size=count) / 3).astype(dtype)
    low = rng.integers(1, 2, (count, dtype.itemsize), np.uint8)
    low[:, : dtype.itemsize : 4] = rng.integers(1, 2 + seed, low[:, ::4].shape)
    return low.view(dtype).reshape(count)


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if is_long(found.dtype) or found.dtype.fields:  # with bytes of no meaning
        assert (found == expected).all()
    else:
        assert found.tobytes() == expected.tobytes()


def stacked(arrays):
    """As of NumPy, which may change the order of bytes."""
    return joined([array[np.newaxis] for array in arrays])


def joined(arrays):
    return np.concatenate(arrays, dtype=arrays[0].dtype)


def move(comm, dtype, rows):
    """Make every call that moves, on ``rows`` rows of two elements."""
    size, rank = comm.size, comm.rank
    inputs = [elements(dtype, 2 * rows, r).reshape(rows, 2) for r in range(size)]
    mine = inputs[rank]
    root = size // 2
    same(comm.broadcast(mine.copy(), root), inputs[root])
    same(comm.allgather(mine), stacked(inputs))
    same(comm.allgather_async(mine.T).wait(), stacked([x.T for x in inputs]))
    parts = [x[: r % 3] for r, x in enumerate(inputs)]
    same(comm.allgatherv(parts[rank]), joined(parts))
    gathered = comm.gather(mine, root)
    table = stacked(inputs)
    if rank == root:
        same(gathered, table)
    found = comm.scatter(table if rank == root else np.empty_like(mine), root)
    same(np.ascontiguousarray(found), mine)
    same(comm.alltoall(table), stacked([mine] * size))
    counts = [r % 2 for r in range(size)]
    found = comm.alltoallv(mine[[0] * sum(counts)], counts)
    same(found, joined([x[: rank % 2] for x in inputs]))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_elements_of_any_dtype_are_moved(size):
    def on_each_rank(comm):
        for dtype in DTYPES:
            for rows in (2, 700) if size == 3 else (2,):
                move(comm, dtype, rows)
        again = np.array(["2026-11-29"] * 3, "M8[D]")
        with_plan = comm.persistent_broadcast(again)
        for _ in range(2):
            with_plan.start()
            same(with_plan.wait(), again)

    threads(on_each_rank, size)


@pytest.mark.parametrize("count", [0, 1, 40, 30_000])
def test_messages_of_any_dtype_are_received(count):
    def on_each_rank(comm):
        for tag, dtype in enumerate(DTYPES):
            sent = elements(dtype, count, tag)
            if comm.rank == 0:
                comm.send(sent, 1, tag)
                continue
            found = comm.probe(0, tag)
            assert found.size == count
            if dtype.fields is None:
                assert dtype_of(found.dtype) == dtype
            same(comm.recv(np.empty_like(sent), 0, tag), sent)

    threads(on_each_rank, 2)


DIFFERENT = [
    ("f4", ">f4"),
    ("M8[s]", "M8[ms]"),
    ("M8[s]", "m8[s]"),
    ("M8[s]", "i8"),
    ("S4", "V4"),
    ("S8", "U2"),
    ([("x", "f4")], "f4"),
    ([("x", "f4")], [("y", "f4")]),
    ("g", "c16"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=str)
def test_ranks_must_pass_the_same_dtype(one, other):
    def together(comm):
        x = np.zeros(3, (one, other)[comm.rank])
        with pytest.raises(MismatchError, match="every rank must pass the same dtype"):
            comm.allgather(x)

    def apart(comm):
        x = np.zeros(3, (one, other)[comm.rank])
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            with pytest.raises(MismatchError, match="both must pass the same dtype"):
                comm.recv(x, 0)

    threads(together, 2)
    threads(apart, 2)


def values(dtype, count, seed):
    """Numbers of any dtype, some times that are none."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "mM":
        found = rng.integers(-9, 9, count)
        found[rng.integers(0, 5, count) == 0] = np.iinfo(np.int64).min
        return found.view(dtype.newbyteorder("=")).astype(dtype)
    return rng.integers(0, 4, count).astype(dtype)


REDUCED = [
    *[(dtype, ("min", "max")) for dtype in ("M8[s]", "M8[D]", ">M8[s]")],
    *[(dtype, ("min", "max", "sum")) for dtype in ("m8[s]", ">m8[ns]")],
    *[(d, ("sum", "prod", "min", "max", "land", "avg")) for d in ("g", ">g", ">f4")],
    *[(d, ("sum", "prod", "avg")) for d in ("G", ">c8", ">G")],
    *[(d, ("sum", "min", "band", "avg")) for d in (">i4", ">u2", ">i8")],
]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_reductions_with_a_meaning_are_those_of_numpy(size):
    def on_each_rank(comm):
        for name, ops in REDUCED:
            dtype = np.dtype(name)
            inputs = [values(dtype, 33, r) for r in range(size)]
            for op in ops:
                reduce_alike(comm, inputs, op)

    threads(on_each_rank, size)


def reduce_alike(comm, inputs, op):
    """Make every call that reduces, and compare."""
    dtype, mine = inputs[0].dtype, inputs[comm.rank]
    expected = reduced(inputs, op)
    same_values(comm.allreduce(mine.copy(), op), expected)
    out = np.empty_like(mine)
    kept = mine.copy()
    assert comm.allreduce_async(mine, op, out=out).wait() is out
    same_values(out, expected)
    same_values(mine, kept)
    found = comm.reduce(mine.copy(), op, comm.size - 1)
    assert (found is None) == (comm.rank != comm.size - 1)
    if found is not None:
        same_values(found, expected)
    part = np.array_split(expected, comm.size)[comm.rank]
    same_values(comm.reduce_scatter(mine, op), part)
    if op != "avg":
        same_values(comm.scan(mine.copy(), op), reduced(inputs[: comm.rank + 1], op))
        before = np.zeros(33, dtype)
        comm.exscan(mine, op, out=before)
        same_values(before, reduced(inputs[: comm.rank], op) if comm.rank else before)


def reduced(inputs, op):
    total = inputs[0] != 0 if op == "land" else inputs[0]
    for other in inputs[1:]:
        total = UFUNCS[op](total, other).astype(inputs[0].dtype)
    if op == "avg":
        integers = total.dtype.kind in "iu"
        total = total // len(inputs) if integers else total / len(inputs)
    return total.astype(inputs[0].dtype)


def same_values(found, expected):
    assert found.dtype == expected.dtype
    if found.dtype.kind in "fc":
        tolerance = 1e-18 if is_long(found.dtype) else 1e-6
        np.testing.assert_allclose(found, expected, rtol=tolerance)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        ("M8[s]", "sum"),
        ("m8[s]", "band"),
        ("m8[s]", "prod"),
        ("S3", "max"),
        ("U3", "min"),
        ("V4", "bor"),
        ("f4,f4", "sum"),
        (">f4", "band"),
        ("g", "bxor"),
        ("G", "max"),
    ],
)
def test_a_reduction_without_a_meaning_is_refused_before_any_message(dtype, op):
    def on_each_rank(comm):
        for call in (comm.allreduce, comm.reduce, comm.reduce_scatter, comm.scan):
            words = f"^{call.__name__}: op '{op}' is not defined for"
            with pytest.raises(TypeError, match=words):
                call(np.zeros(4, dtype), op)
        with pytest.raises(ValueError, match="scan has no op 'avg'"):
            comm.scan(np.zeros(4, ">i4"), "avg")
        comm.barrier()

    threads(on_each_rank, 2)
