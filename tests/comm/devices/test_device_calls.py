"""Calls on arrays on devices give what they give on the host."""

from itertools import product

import numpy as np
import pytest

import collalgo
from collalgo import MismatchError
from collalgo.comm.current import runner_of
from tests.comm.devices.conftest import KINDS
from tests.support.fake_device_memory import DeviceArray
from tests.support.leisure import at_leisure


def given(rank, shape, dtype=np.float32):
    return np.random.default_rng(rank).integers(0, 9, shape).astype(dtype)


CALLS = {
    "allreduce": lambda c, x, o: c.allreduce(x, "sum", out=o((6, 4))),
    "allreduce in place": lambda c, x, o: c.allreduce(x, "max"),
    "mean": lambda c, x, o: c.allreduce(x, "avg"),
    "reproducible": lambda c, x, o: c.allreduce(x, reproducible=True),
    "reduce": lambda c, x, o: c.reduce(x, "sum", c.size - 1),
    "reduce_scatter": lambda c, x, o: c.reduce_scatter(x),
    "reduce_scatter uneven": lambda c, x, o: c.reduce_scatter(
        x, "min", [6, *[0] * (c.size - 1)]
    ),
    "broadcast": lambda c, x, o: c.broadcast(x, c.size - 1),
    "allgather": lambda c, x, o: c.allgather(x),
    "allgather out": lambda c, x, o: c.allgather(x, out=o((c.size, 6, 4))),
    "allgatherv": lambda c, x, o: c.allgatherv(x),
    "gather": lambda c, x, o: c.gather(x, 1),
    "scatter": lambda c, x, o: (
        c.scatter(x.part(slice(0, c.size)), 1) if c.rank == 1
        else c.scatter(x.part(0), 1)
    ),
    "scatter out": lambda c, x, o: (
        c.scatter(x.part(slice(0, c.size)), 1, out=o((4,))) if c.rank == 1
        else c.scatter(x.part(0), 1)
    ),
    "alltoall": lambda c, x, o: c.alltoall(x),
    "alltoallv": lambda c, x, o: c.alltoallv(x, [6, *[0] * (c.size - 1)]),
    "scan": lambda c, x, o: c.scan(x),
    "exscan": lambda c, x, o: c.exscan(x),
}  # fmt: skip


class Host:
    """An array of the host with the same ways to take a part of it."""

    def __new__(cls, values):
        return values.view(HostArray)


class HostArray(np.ndarray):
    def part(self, key):
        return np.ascontiguousarray(np.asarray(self)[key])


def part(self, key):
    first = key if isinstance(key, int) else key.start
    shape = self.shape[1:]
    row = int(np.prod(shape)) * self.dtype.itemsize
    rows = () if isinstance(key, int) else (key.stop - key.start,)
    return DeviceArray((*rows, *shape), self.dtype, self.pointer + first * row, self)


DeviceArray.part = part


def on_host(call, size, dtype):
    def rank(comm):
        x = Host(given(comm.rank, (6, 4), dtype))
        found = CALLS[call](comm, x, lambda shape: np.empty(shape, dtype))
        return None if found is None else np.array(found)

    return collalgo.threads(rank, size)


@pytest.mark.parametrize(
    ("kind", "size"),
    at_leisure(
        product(KINDS, [1, 2, 3]),
        {*product(KINDS, [3]), ("several processes", 1), ("by way of the host", 1)},
    ),
)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_what_it_does_on_the_host(devices, call, size, kind):
    if size == 1 and ("gather" in call or "scatter" in call) and "all" not in call:
        pytest.skip("rank 1 is the root")

    def rank(comm, runtime):
        x = runtime.array(given(comm.rank, (6, 4)))
        found = CALLS[call](comm, x, lambda shape: DeviceArray(shape, np.float32))
        if found is None:
            return None
        assert isinstance(found, DeviceArray)
        return runtime.values(found).copy()

    found, expected = devices(rank, size, kind), on_host(call, size, np.float32)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["one process", "by way of the host"])
@pytest.mark.parametrize("op", ["land", "lor", "lxor"])
@pytest.mark.parametrize(
    ("call", "size", "single"),
    [
        ("allreduce", 1, 0),
        ("reduce", 1, 0),
        ("reduce_scatter", 1, 0),
        ("scan", 3, 0),
        ("exscan", 3, 1),
    ],
)
def test_a_single_contribution_to_a_logical_op_gives_0_or_1(
    monkeypatch, devices, call, size, single, op, kind
):
    monkeypatch.setenv("COLLALGO_ONE_KERNEL", "0")

    def rank(comm, runtime):
        x, out = (runtime.array(np.array([0, 1, 2, 7], np.int8)) for _ in range(2))
        getattr(comm, call)(x, op=op, out=out)
        found = getattr(comm, f"{call}_async")(x, op=op).wait()
        return [runtime.values(each).tolist() for each in (out, found)]

    assert devices(rank, size, kind)[single] == [[0, 1, 1, 1]] * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "complex64", "bool"])
def test_dtypes(devices, dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)

    def rank(comm, runtime):
        x = runtime.array(given(comm.rank, 1001).astype(kind))
        return runtime.values(comm.allreduce(x)).copy()

    expected = collalgo.threads(
        lambda comm: comm.allreduce(given(comm.rank, 1001).astype(kind)), 3
    )
    for ours, theirs in zip(devices(rank, 3), expected, strict=True):
        assert (ours.view(np.uint8) == theirs.view(np.uint8)).all()


def test_the_prices_of_devices_choose(devices):
    def rank(comm, runtime):
        with pytest.raises(
            ValueError, match="unknown before the first call on device arr"
        ):
            comm.select("allreduce", 1000, devices=True)
        comm.allreduce(runtime.array(np.ones(10)))
        return comm.select("allreduce", 1000, devices=True).explain()

    for explained in devices(rank, 3):
        assert "one device shared by 3 ranks" in explained


def test_a_call_has_one_number_whatever_moves_its_arrays(devices):
    def rank(comm, runtime):
        x = runtime.array(np.ones(3))
        comm.allreduce(x)
        comm.allreduce_async(x).wait()
        comm.barrier()
        assert runner_of(comm).recorder.calls == 3
        with pytest.raises(MismatchError, match=r"^allreduce #4: "):
            comm.allreduce(np.ones(3 + comm.rank))
        return True

    for kind in KINDS:
        assert all(devices(rank, 2, kind)), kind
