"""The calls of ``engine.devices.cuda`` to CuPy and the driver, on fakes of both."""

import sys
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from collalgo._kernels.engine.devices import cuda as kernels
from collalgo._kernels.engine.devices.sources import ROOM
from collalgo.engine.devices import cuda as runtime_of_cuda, driver
from collalgo.engine.devices.runtime import Table
from tests.support.fake_cupy import NOWHERE, Driver, Fake, RuntimeFault


@pytest.fixture
def fake(monkeypatch):
    found = Fake()
    monkeypatch.setattr(runtime_of_cuda, "checked_cupy", lambda: found)
    monkeypatch.setattr(kernels, "checked_cupy", lambda: found)
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda _: Driver(found))
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupy.cuda", found.cuda)
    for cached in (kernels.reducer, kernels.interpretation, runtime_of_cuda._loading):
        cached.cache_clear()
    runtime_of_cuda._of_thread.runtimes.clear()
    yield found
    for cached in (kernels.reducer, kernels.interpretation, runtime_of_cuda._loading):
        cached.cache_clear()
    runtime_of_cuda._of_thread.runtimes.clear()


@pytest.fixture
def runtime(fake):
    return runtime_of_cuda.cuda()


@contextmanager
def calls_of(fake):
    fake.calls.clear()
    yield
    fake.calls[:] = [call for call in fake.calls if call[0] != "Stream"]


def test_arrays_are_found_and_parts_made(fake, runtime):
    array = fake.empty((3, 4), np.float32)
    memory = runtime.memory(array, "allreduce")
    assert memory[1:] == (array.ctypes.data, (3, 4), np.dtype("f4"), True)
    with pytest.raises(ValueError, match="allreduce: this Array is not contiguous"):
        runtime.memory(array[:, ::2], "allreduce")
    assert runtime.empty((5,), np.dtype("i2")).shape == (5,)
    assert np.asarray(runtime.upload(np.arange(9, dtype=np.uint8)).array).sum() == 36
    assert runtime.bandwidth == pytest.approx(3352.3, rel=1e-3)
    assert runtime.bus_id == "0000:0A:00.0"
    assert runtime_of_cuda.cuda(0) is runtime


@pytest.mark.parametrize("shared", [0, 1])
def test_the_driver_says_whether_processes_share_a_device_in_turns(fake, shared):
    fake.shared = shared
    assert runtime_of_cuda.cuda().in_turns != shared


def test_an_array_of_another_device_has_the_stream_of_that(fake):
    other = runtime_of_cuda.cuda(1)
    assert (other.device, other.stream) == (1, 501)
    other.follow(fake.empty((3,), np.uint8))
    assert other.stream == 501
    kept = other.as_now()
    assert (kept.device, kept.stream) == (1, 501)
    assert runtime_of_cuda.cuda().device == 0


def test_what_may_not_be_written_is_known(fake, runtime):
    class Fixed:
        __module__ = "others"

        def __init__(self, read_only):
            array = fake.empty((3,), np.float32)
            found = {**array.__array_interface__}
            found["data"] = found["data"][0], read_only
            self.__array_interface__ = self.__cuda_array_interface__ = found

    for read_only in (False, True):
        assert runtime.memory(Fixed(read_only), "f").writeable == (not read_only)
    Fixed.__module__ = "jaxlib._jax"
    assert not runtime.memory(Fixed(read_only=False), "f").writeable


def test_allocations_have_numbers(runtime):
    assert runtime.allocation(4160) == 160
    assert runtime.allocation(NOWHERE) is None


def test_memory_is_exported_and_mapped(fake, runtime):
    export = runtime.export(4160)
    assert (export.handle, export.offset) == ((4096).to_bytes(64, "little"), 64)
    assert runtime.open(export.handle) == 4096
    with pytest.raises(OSError, match="cudaErrorMapBufferObjectFailed"):
        runtime.open(bytes(64))
    with calls_of(fake):
        runtime.close(4096)
    assert fake.calls == [("device", 0), ("close", 4096)]
    for device in (0, 1, 2):
        runtime.reach(device)
    with pytest.raises(OSError, match="device 0 cannot read the memory of device 3"):
        runtime.reach(3)


class ForeignStream:
    """A stream of another library."""

    cuda_stream = 77


def test_what_goes_on_a_stream(fake, runtime):
    with calls_of(fake):
        runtime.write(640, 3)
        runtime.wait(640, 4)
        mark = runtime.mark()
        runtime.after(mark)
        runtime.hold(ForeignStream(), mark)
        runtime.hold(78, mark)
        runtime.hold(None, mark)
    stream = runtime.stream
    assert fake.calls == [
        ("write", stream, 640, 3),
        ("wait", stream, 640, 4),
        ("record", stream),
        ("wait_event", stream, mark),
        ("wait_event", 77, mark),
        ("wait_event", 78, mark),
        ("wait_event", 0, mark),
    ]
    with pytest.raises(RuntimeError, match=r"cuStreamWaitValue32_v2 .*status 801"):
        runtime.wait(640, 99)


def test_there_are_streams_of_two_priorities_beside_the_current_one(runtime):
    assert runtime.aside().stream != runtime.stream
    assert runtime.aside()._stream.priority == 0
    assert runtime.aside(high_priority=True)._stream.priority < 0
    assert not runtime.capturing


def test_arrays_are_copied_and_filled_on_the_stream(fake, runtime):
    a, b = (fake.empty((8,), np.uint8) for _ in range(2))
    a[...] = 5
    runtime.follow(a)
    runtime.copy(b.ctypes.data, a.ctypes.data, 8)
    assert (b == 5).all()
    host = np.zeros(8, np.uint8)
    runtime.to_host(b.ctypes.data, host)
    runtime.to_device(a.ctypes.data, np.arange(8, dtype=np.uint8))
    assert host.tolist() == [5] * 8
    assert np.asarray(a).tolist() == list(range(8))
    flags = runtime.upload(np.zeros(16, np.uint8))
    runtime.end_waits(flags)
    assert (np.asarray(flags.array).view(np.uint32) == 0x7F7F7F7F).all()


def test_kernels_are_loaded_on_another_stream(fake, runtime):
    with calls_of(fake):
        runtime.load("float32", "sum", whole=False)
        runtime.load("float32", "sum", whole=True)
    loaded = [call[1:] for call in fake.calls if call[0] == "launch"]
    assert [where[1] for _, *where, _ in loaded] == [*[(256,)] * 4, (512,)]
    assert {where[2] for _, *where, _ in loaded}.isdisjoint({runtime.stream})


@pytest.mark.parametrize(("ranks", "blocks"), [(1, 8), (3, 4), (13, 1)])
def test_kernels_are_launched_on_the_stream(fake, runtime, ranks, blocks):
    """Those of all ranks that wait for each other on one device have room there."""
    for whole in (False, True):
        runtime.load("float32", "sum", whole=whole)
    with calls_of(fake):
        runtime.reduce("float32", "sum", 64, [128, 192], 1000, 0)
        rows = runtime.upload(np.zeros(64, np.uint8))
        table = Table("float32", "sum", rows, rows, 3, rows)
        runtime.interpret(table, (640,) * 10, 1 << 17, ranks)
    launches = [call[1:] for call in fake.calls if call[0] == "launch"]
    (name, *where, arguments), (other, *there, more) = launches
    stream = runtime.stream
    assert (name, where) == ("reduce_float32_Sum_2_4", [(1,), (256,), stream, False])
    assert arguments[1]["array"][:3].tolist() == [128, 192, 0]
    assert arguments[2:] == (2, 1000, 0)
    assert other == "interpret_float32_Sum"
    assert there == [(blocks,), (512,), stream, True]
    assert more[:3] == (rows.pointer, 3, rows.pointer)
    assert more[3]["begin"].tolist() == [640] * 10 + [0] * (ROOM - 10)


class NcclCommunicator:
    """What CuPy has for NCCL, which notes its calls."""

    def __init__(self, calls, size, identity, rank):
        if rank == 9:
            raise RuntimeFault("NCCL_ERROR_INVALID_USAGE")
        assert (size, identity, rank) == (3, b"x" * 128, 1)
        self.calls = calls

    def send(self, *arguments):
        self.calls.append(("send", *arguments))

    def recv(self, *arguments):
        self.calls.append(("recv", *arguments))

    def abort(self):
        self.calls.append(("abort",))


def fake_nccl(calls):
    return SimpleNamespace(
        available=True,
        get_version=lambda: 23203,
        get_unique_id=lambda: b"x" * 128,
        NcclCommunicator=partial(NcclCommunicator, calls),
        NcclError=RuntimeFault,
        NCCL_UINT8=1,
        groupStart=lambda: calls.append(("start",)),
        groupEnd=lambda: calls.append(("end",)),
    )


def test_nccl_is_asked_in_groups(fake, runtime):
    assert runtime.network is None
    fake.cuda.nccl = fake_nccl(fake.calls)
    assert runtime.network == "NCCL 23203"
    network = runtime.join(runtime.identity(), 1, 3)
    with calls_of(fake):
        network.exchange(5, [(64, 8, 0)], [(128, 16, 2)])
        network.close()
    assert fake.calls == [
        ("start",),
        ("send", 64, 8, 1, 0, 5),
        ("recv", 128, 16, 1, 2, 5),
        ("end",),
        ("abort",),
    ]
    with pytest.raises(OSError, match="NCCL_ERROR_INVALID_USAGE"):
        runtime.join(b"x" * 128, 9, 3)


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__


def test_a_call_of_one_rank_goes_all_the_way(fake, monkeypatch):
    import collalgo

    monkeypatch.setenv("COLLALGO_ONE_KERNEL", "0")  # kernels of the fake do nothing
    array = fake.empty((10,), np.float32)
    array[...] = 3
    x = Foreign(array)
    comm = collalgo.init()
    with calls_of(fake):
        assert comm.allreduce(x, "avg") is x
        assert comm.allreduce_async(x).wait() is x
    assert [call[0] for call in fake.calls].count("record") > 1
    assert (np.asarray(comm.allgather(x)) == 3).all()
    comm.close()
