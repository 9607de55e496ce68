"""Calls on arrays of JAX: every collective gives arrays of JAX, and changes none.

``script_jax.py`` runs ranks in threads; it ends with the line ``right``.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import asyncio
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

import collalgo

SIZES = (1, 2, 5)
DTYPES = ("float32", "bfloat16", "int32", "bool", "complex64", "float8_e4m3fn")
REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")
MOVING = ("broadcast", "allgather", "alltoall", "gather", "scatter")
OF_ROWS = ("allgatherv", "gatherv", "scatterv")


def row(rank, size, dtype):
    return ((np.arange(2 * size) + rank) % 3).astype(jnp.dtype(dtype))


def given(name, comm, dtype):
    """The argument of a rank: at the root of a scatter a table."""
    if name.startswith("scatter"):
        rows = np.stack([row(rank, comm.size, dtype) for rank in range(comm.size)])
        own = rows if name == "scatter" else rows[:1]
        if comm.rank == 0:
            own = rows
        elif name == "scatter":
            own = rows[0]
        return own
    return row(comm.rank, comm.size, dtype)


def check_call(comm, name, dtype, *args, form=""):
    """A call on an array of JAX gives what it gives on one of NumPy."""
    mine = given(name, comm, dtype)
    before = jax.device_put(mine)
    found = getattr(comm, name + form)(before, *args)
    if form:
        found = found.wait()
    wanted = getattr(comm, name)(mine.copy(), *args)
    assert (np.asarray(before) == given(name, comm, dtype)).all(), name
    if wanted is None:
        assert found is None
        return
    assert isinstance(found, jax.Array), (name, type(found))
    assert found.dtype == wanted.dtype, (name, found.dtype, wanted.dtype)
    assert np.asarray(found).tobytes() == wanted.tobytes(), (name, found, wanted)
    assert not name.startswith(("allreduce", "broadcast")) or found.shape == mine.shape


def check_calls(comm):
    for form in ("", "_async"):
        for dtype in DTYPES if form else DTYPES[:1]:
            ops = ("max",) if dtype != "complex64" else ("sum",)
            for name in REDUCING:
                for op in ops:
                    check_call(comm, name, dtype, op, form=form)
            for name in (*MOVING, *OF_ROWS):
                check_call(comm, name, dtype, form=form)
    for name in REDUCING:
        check_call(comm, name, "float32", "argmin")
    check_call(comm, "alltoallv", "float32", [2] * comm.size)


def check_structures(comm):
    near, single = jnp.arange(8.0) + comm.rank, np.full(3, comm.rank)
    long = jnp.full(40000, comm.rank, jnp.float32)
    tree = {"a": near, "b": [single, long, jnp.float32(comm.rank)]}
    found = comm.allreduce(tree, "max")
    most = comm.size - 1
    assert isinstance(found["a"], jax.Array)
    assert found["a"].tolist()[0] == most
    assert found["b"][0] is single
    assert single.tolist() == [most] * 3
    assert float(found["b"][1].min()) == most == float(found["b"][2])
    assert float(near[0]) == comm.rank == float(long[0])
    found = comm.broadcast_async(tree, comm.size - 1).wait()
    assert float(found["a"][0]) == most == float(found["b"][2])
    rows = comm.allgather([near, long])
    assert all(isinstance(each, jax.Array) for each in rows)
    assert rows[0][:, 0].tolist() == list(range(comm.size))
    blocks = comm.alltoall([near[: rank + 1] for rank in range(comm.size)])
    assert [each.shape for each in blocks] == [(comm.rank + 1,)] * comm.size
    assert all(isinstance(each, jax.Array) for each in blocks)


def check_further_calls(comm):
    near, most = jnp.arange(8.0) + comm.rank, comm.size - 1
    value, index = comm.allreduce((near, jnp.full(8, comm.rank)), "maxloc")
    assert isinstance(value, jax.Array)
    assert index.tolist() == [most] * 8
    known = comm.broadcast({"x": near} if comm.rank == 0 else None, like=None)
    assert isinstance(known["x"], jax.Array)
    assert known["x"].tolist() == [*range(8)]
    near_ranks = comm.neighbors(collalgo.cartesian((comm.size,), periodic=True))
    assert isinstance(near_ranks.allgather(near), jax.Array)


def refusal(call, *args, **named):
    try:
        call(*args, **named)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"{call} was not refused")


def check_refusals(comm):
    x = jnp.arange(2.0 * comm.size)
    for name in ("allreduce", "reduce_scatter", "allgather", "alltoall", "scan"):
        refused = refusal(getattr(comm, name), x, out=x)
        assert "immutable" in refused or "shape" in refused, refused
    assert refusal(comm.allreduce, x, out=x) == (
        "allreduce: out is an array of JAX, which is immutable; pass a NumPy array, "
        "or no out for a new array of JAX"
    )
    assert "immutable" in refusal(comm.allreduce, [x], out=[x])
    assert "immutable" in refusal(comm.allreduce, x, "argmax", out=x.astype(int))
    assert "io_callback" in refusal(jax.jit(comm.allreduce), x)
    into = np.empty(2 * comm.size, np.float32)
    assert comm.allreduce(x, out=into) is into
    assert into.tolist() == (x * comm.size).tolist()
    assert isinstance(comm.allreduce(jnp.zeros(0)), jax.Array)


def check_persistent_calls(comm):
    x = jnp.arange(2.0 * comm.size)
    assert "immutable" in refusal(comm.persistent_allreduce, x)
    counts, rows = [2] * comm.size, np.zeros(2 * comm.size)
    assert "immutable" in refusal(comm.persistent_alltoallv, x, counts)
    assert "immutable" in refusal(comm.persistent_alltoallv, rows, counts, out=x)
    near = comm.neighbors(collalgo.cartesian((comm.size,), periodic=True))
    for name in ("allgather", "allgatherv", "alltoall", "alltoallv"):
        assert "immutable" in refusal(getattr(near, f"persistent_{name}"), x)


def check_messages(comm):
    x, got = jnp.arange(3.0) + comm.rank, np.empty(3, np.float32)
    work = comm.isend(x, (comm.rank + 1) % comm.size)
    comm.recv(got, (comm.rank - 1) % comm.size)
    work.wait()
    assert got[0] == (comm.rank - 1) % comm.size
    assert "read-only" in refusal(comm.recv, x, comm.rank)


def check_await(comm):
    async def total():
        return await comm.allreduce_async(jnp.ones(3))

    assert asyncio.run(total()).tolist() == [comm.size] * 3


def check_wide(comm):
    """Elements of 64 bits stay as they are, whatever JAX makes by default."""
    with jax.enable_x64(True):
        x = jnp.arange(3, dtype=jnp.int64)
    found = comm.allreduce(x)
    assert found.dtype == jnp.int64
    assert found.tolist() == [0, comm.size, 2 * comm.size]


def main(comm):
    check_calls(comm)
    check_structures(comm)
    check_further_calls(comm)
    check_refusals(comm)
    check_persistent_calls(comm)
    check_messages(comm)
    check_await(comm)
    check_wide(comm)


@jax.jit
def doubled_mean(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    mean = partial(collalgo.init().allreduce, op="avg")
    return io_callback(mean, shape, x, ordered=True) * 2


if __name__ == "__main__":
    for size in SIZES:
        collalgo.threads(main, size, timeout=60)
    assert doubled_mean(jnp.arange(3.0)).tolist() == [0, 2, 4]
    print("right")
