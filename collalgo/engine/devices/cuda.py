"""CUDA devices, by CuPy."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property
from threading import local
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.devices.cuda import checked_cupy, interpretation, reducer
from collalgo.base.foreign import package_of
from collalgo.engine.devices import nccl
from collalgo.engine.devices.driver import Driver
from collalgo.engine.devices.memory import memory_of
from collalgo.engine.devices.runtime import Export, Mark, Memory, Table

#: The priority of streams of high priority, as torch has it; the default is 0.
HIGH_PRIORITY = -1

#: The assumed bandwidth of memory if the device does not report it, in GB/s.
USUAL = 1000.0


class Cuda:
    """The current device of CuPy, as a :class:`Runtime`.

    Calls go on the current stream of CuPy, or of torch for its tensors, unless it is
    given one of its own.
    """

    def __init__(self, stream: Any = None) -> None:
        self._cupy = checked_cupy()
        self._driver = Driver()
        self.process = os.getpid()
        self.device = int(self._cupy.cuda.runtime.getDevice())
        self._stream = stream or self._cupy.cuda.get_current_stream(self.device)
        self._reached = {self.device}

    @cached_property
    def _loading(self) -> Any:
        """A stream for operations that must not wait for others."""
        return _loading(self.device)

    @cached_property
    def bus_id(self) -> str:
        return str(self._cupy.cuda.Device(self.device).pci_bus_id)

    @cached_property
    def in_turns(self) -> bool:
        return self._driver.in_turns(self.device)

    @cached_property
    def _attributes(self) -> Any:
        return self._cupy.cuda.Device(self.device).attributes

    @property
    def bandwidth(self) -> float:
        known = self._attributes
        clock, width = known.get("MemoryClockRate"), known.get("GlobalMemoryBusWidth")
        if not clock or not width:
            return USUAL
        return float(2 * clock * 1e3 * width / 8 / 1e9)  # twice in each period

    @property
    def stream(self) -> int:
        return int(self._stream.ptr)

    @property
    def capturing(self) -> bool:
        return bool(self._cupy.cuda.runtime.streamIsCapturing(self._stream.ptr))

    def current(self) -> AbstractContextManager[Any]:
        return cast("AbstractContextManager[Any]", self._cupy.cuda.Device(self.device))

    def memory(self, buf: Any, caller: str) -> Memory:
        return memory_of(buf, self._cupy, caller)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Memory:
        with self.current(), self._stream:
            array = self._cupy.empty(shape, dtype)
        return Memory(array, array.data.ptr, array.shape, array.dtype)

    def upload(self, values: NDArray[np.uint8]) -> Memory:
        with self._driver.uncaptured(), self._loading:
            array = self._cupy.empty(max(values.size, 1), np.uint8)
            array[: values.size].set(values)
        self._loading.synchronize()
        return Memory(array, array.data.ptr, array.shape, array.dtype)

    def part(
        self, whole: Any, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        cupy = self._cupy
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = cupy.cuda.UnownedMemory(pointer, nbytes, whole)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    def allocation(self, pointer: int) -> int | None:
        return self._driver.allocation(pointer)

    def export(self, pointer: int) -> Export | None:
        base = self._driver.beginning(pointer)
        if base is None:
            return None
        runtime = self._cupy.cuda.runtime
        try:
            handle = runtime.ipcGetMemHandle(base)
        except runtime.CUDARuntimeError:  # memory of a pool of the driver
            return None
        return Export(bytes(handle), pointer - base)

    def reach(self, device: int) -> None:
        runtime = self._cupy.cuda.runtime
        if device in self._reached:
            return
        if not runtime.deviceCanAccessPeer(self.device, device):
            raise OSError(
                f"device {self.device} cannot read the memory of device {device}"
            )
        with self._driver.uncaptured():
            try:
                runtime.deviceEnablePeerAccess(device)
            except runtime.CUDARuntimeError as error:  # enabled already, as by CuPy
                if "AlreadyEnabled" not in str(error):
                    raise OSError(str(error)) from error
        self._reached.add(device)

    def open(self, handle: bytes) -> int:
        runtime = self._cupy.cuda.runtime
        with self._driver.uncaptured():
            try:
                return int(
                    runtime.ipcOpenMemHandle(
                        handle, runtime.cudaIpcMemLazyEnablePeerAccess
                    )
                )
            except runtime.CUDARuntimeError as error:
                raise OSError(str(error)) from error

    def close(self, pointer: int) -> None:
        with self.current() as device:
            device.synchronize()  # streams may still read there
            self._cupy.cuda.runtime.ipcCloseMemHandle(pointer)

    def follow(self, buf: Any) -> None:
        if package_of(buf) == "torch":
            import torch

            self._stream = self._known(torch.cuda.current_stream(buf.device))
        else:
            self._stream = self._cupy.cuda.get_current_stream(self.device)

    @property
    def network(self) -> str | None:
        return nccl.version()

    def identity(self) -> bytes:
        return nccl.identity()

    def join(self, identity: bytes, rank: int, size: int) -> nccl.Nccl:
        with self._driver.uncaptured():
            return nccl.Nccl(identity, rank, size)

    def load(self, dtype: str, op: str, *, whole: bool) -> None:
        with self._driver.uncaptured(), self._loading:
            (interpretation if whole else reducer)(self.device, dtype, op)
        self._loading.synchronize()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(
            target, source, nbytes, runtime.memcpyDefault, self._stream.ptr
        )

    def reduce(
        self, dtype: str, op: str, target: int, sources: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        with self._stream:
            reducer(self.device, dtype, op)(target, sources, count, divisor)

    def interpret(
        self, table: Table, buffers: tuple[int, ...], nbytes: int, ranks: int
    ) -> None:
        room = int(self._attributes["MultiProcessorCount"]) // ranks
        with self._stream:
            interpretation(self.device, table.dtype, table.op)(
                table.rows.pointer, table.length, table.places.pointer, buffers,
                table.arrived.pointer, nbytes, room,
            )  # fmt: skip

    def write(self, flag: int, number: int) -> None:
        self._driver.write(self._stream.ptr, flag, number)

    def wait(self, flag: int, number: int) -> None:
        self._driver.wait(self._stream.ptr, flag, number)

    def end_waits(self, flags: Memory) -> None:
        # Each byte is 127: a number that ends every wait, modulo 2**32.
        runtime, stream = self._cupy.cuda.runtime, self._loading
        runtime.memsetAsync(flags.pointer, 127, flags.shape[0], stream.ptr)
        stream.synchronize()

    def mark(self) -> Mark:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self._stream)
        return cast("Mark", event)

    def after(self, mark: Mark) -> None:
        self._stream.wait_event(mark)

    def hold(self, stream: Any, mark: Mark) -> None:
        if stream is None:
            stream = self._cupy.cuda.get_current_stream(self.device)
        self._known(stream).wait_event(mark)

    def as_now(self) -> "Cuda":
        with self.current():
            return Cuda(self._stream)

    def aside(self, *, high_priority: bool = False) -> "Cuda":
        priority = {"priority": HIGH_PRIORITY} if high_priority else {}
        with self._driver.uncaptured():
            return Cuda(self._cupy.cuda.Stream(non_blocking=True, **priority))

    def to_host(self, pointer: int, target: NDArray[np.uint8]) -> None:
        self.copy(target.ctypes.data, pointer, target.nbytes)
        self._stream.synchronize()

    def to_device(self, pointer: int, source: NDArray[np.uint8]) -> None:
        self.copy(pointer, source.ctypes.data, source.nbytes)
        self._stream.synchronize()

    def _known(self, stream: Any) -> Any:
        """A stream of CuPy or torch, or a number, as a CuPy stream."""
        if hasattr(stream, "wait_event") and hasattr(stream, "ptr"):
            return stream
        number = int(getattr(stream, "cuda_stream", stream))
        return self._cupy.cuda.Stream.from_external(_Numbered(number))


class _Numbered(NamedTuple):
    """A stream known by its number only."""

    number: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the stream."""
        return 0, self.number


@cache
def _loading(device: int) -> Any:
    """A stream for all threads: a device has few queues, which streams share."""
    cupy = checked_cupy()
    with cupy.cuda.Device(device):
        return cupy.cuda.Stream(non_blocking=True)


class _OfThread(local):
    """The runtimes of a thread by device number; streams belong to threads."""

    def __init__(self) -> None:
        self.runtimes: dict[int, Cuda] = {}


_of_thread = _OfThread()


def cuda(device: int | None = None) -> Cuda:
    """The runtime of this thread for a device, or for the current one."""
    cupy = checked_cupy()
    if device is None:
        device = int(cupy.cuda.runtime.getDevice())
    if device not in _of_thread.runtimes:
        with cupy.cuda.Device(device):
            _of_thread.runtimes[device] = Cuda()
    return _of_thread.runtimes[device]
