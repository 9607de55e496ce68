"""Calls on arrays on devices that cannot be are refused on every rank."""

import sys

import numpy as np
import pytest

import collalgo
from collalgo import MismatchError
from collalgo._kernels.engine.devices import cuda
from tests.support.fake_device_memory import DeviceArray


def test_some_on_devices_and_some_on_the_host_is_an_error_on_every_rank(devices):
    def rank(comm, runtime):
        x = np.ones(10)
        with pytest.raises(MismatchError) as caught:
            comm.allreduce(runtime.array(x) if comm.rank else x)
        return str(caught.value)

    for message in devices(rank, 3):
        assert "on devices" in message


def test_arrays_that_cannot_be_are_refused_and_lose_nothing(devices):
    def rank(comm, runtime):
        x = np.ones(10)
        for buf, out in ((x, runtime.array(x)), (runtime.array(x), x)):
            with pytest.raises(TypeError, match="is on a device and the other in"):
                comm.allreduce(buf, out=out)
        apart = runtime.array(x)
        apart.contiguous = False
        with pytest.raises(ValueError, match="allreduce: pass a contiguous copy"):
            comm.allreduce(apart)
        fixed = runtime.array(x)
        fixed.writeable = False
        for call in (comm.allreduce, comm.allreduce_async):
            with pytest.raises(ValueError, match=r"buf is read-only.*or out="):
                call(fixed)
        with pytest.raises(ValueError, match="allreduce: out is read-only"):
            comm.allreduce(runtime.array(x), out=fixed)
        return runtime.values(comm.allreduce(fixed, out=runtime.array(x)))[0]

    assert devices(rank, 2) == [2.0, 2.0]


def test_calls_that_cannot_be_are_refused_and_lose_nothing(devices):
    def rank(comm, runtime):
        x = np.ones(10)
        with pytest.raises(TypeError, match="capture the call itself in a graph"):
            comm.persistent_allreduce(runtime.array(x))
        with pytest.raises(ValueError, match="root 7 is out of range"):
            comm.broadcast(runtime.array(x), 7)
        for kind in (np.int8, np.uint64):
            with pytest.raises(TypeError, match="'avg' could overflow on a device"):
                comm.allreduce(runtime.array(np.ones(3, kind)), "mean")
        with pytest.raises(TypeError, match="op 'band' is not defined for float64"):
            comm.allreduce(runtime.array(x), "band")
        return runtime.values(comm.allreduce(runtime.array(x)))[0]

    assert devices(rank, 2) == [2.0, 2.0]


def test_the_ranks_of_extreme_values_are_of_arrays_of_the_host(devices):
    def rank(comm, runtime):
        x, i = np.ones(10), np.arange(10)
        on_device, indices = runtime.array(x), runtime.array(i)
        calls = (
            (on_device, "argmin", None),
            (x, "argmin", indices),
            ((x, indices), "minloc", None),
            ((x, i), "minloc", (on_device, i)),
            ((x, i), "minloc", (x, indices)),
        )
        for buf, op, out in calls:
            with pytest.raises(TypeError, match=f"{op}' takes no arrays on devices"):
                comm.allreduce(buf, op, out=out)
        return comm.allreduce(i, "argmax")[0]

    assert devices(rank, 2) == [0, 0]


def test_ranks_that_call_different_things_are_told(devices):
    def rank(comm, runtime):
        with pytest.raises(MismatchError) as caught:
            comm.allreduce(runtime.array(np.ones(10 + comm.rank)))
        return str(caught.value)

    assert all("10" in m and "11" in m for m in devices(rank, 2))


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.checked_cupy.cache_clear()
    with pytest.raises(ImportError, match=r"pip install collalgo\[cuda\]"):
        collalgo.init().allreduce(DeviceArray((3,), np.float32))
