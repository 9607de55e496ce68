"""CUDA devices as CuPy has them, and what of the driver CuPy does not show."""

import ctypes
import os
from collections.abc import Sequence
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.cuda import checked_cupy, reducer
from collalgo.devices.runtime import Export, Memory

#: A wait ends when the flag, counted around, is not below the number.
GREATER_OR_EQUAL = 0


class Cuda:
    """The current device of CuPy; see :class:`~collalgo.devices.runtime.Runtime`.

    Calls go on the current stream of CuPy, or of torch for its tensors.
    """

    def __init__(self) -> None:
        self._cupy = checked_cupy()
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._stream = self._cupy.cuda.get_current_stream()
        self.process = os.getpid()

    def memory(self, buf: Any, caller: str) -> Memory:
        if _is_of_torch(buf):
            return _memory_of_torch(buf, caller)
        cupy = self._cupy
        if isinstance(buf, cupy.ndarray):
            array = buf
        elif hasattr(buf, "__cuda_array_interface__"):
            array = cupy.asarray(buf)
        else:
            array = cupy.from_dlpack(buf)
        _check_contiguous(array.flags.c_contiguous, buf, caller)
        return Memory(buf, array.data.ptr, array.shape, array.dtype)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Memory:
        with self._stream:
            array = self._cupy.empty(shape, dtype)
        return Memory(array, array.data.ptr, array.shape, array.dtype)

    def zeros(self, nbytes: int) -> Memory:
        array = self._cupy.zeros(nbytes, np.uint8)
        self._cupy.cuda.get_current_stream().synchronize()
        return Memory(array, array.data.ptr, array.shape, array.dtype)

    def part(
        self, whole: Any, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        cupy = self._cupy
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = cupy.cuda.UnownedMemory(pointer, nbytes, whole)
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    def export(self, pointer: int) -> Export | None:
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._driver.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(pointer)
        )
        if status:
            return None
        runtime = self._cupy.cuda.runtime
        try:  # asked each time: another allocation may have come to the same place
            handle = runtime.ipcGetMemHandle(base.value)
        except runtime.CUDARuntimeError:  # as memory of a pool of the driver
            return None
        return Export(bytes(handle), pointer - base.value)

    def open(self, handle: bytes) -> int:
        runtime = self._cupy.cuda.runtime
        return int(
            runtime.ipcOpenMemHandle(handle, runtime.cudaIpcMemLazyEnablePeerAccess)
        )

    def close(self, pointer: int) -> None:
        self._cupy.cuda.Device().synchronize()  # streams may still read there
        self._cupy.cuda.runtime.ipcCloseMemHandle(pointer)

    def follow(self, buf: Any) -> None:
        if _is_of_torch(buf):
            import torch

            number = torch.cuda.current_stream(buf.device).cuda_stream
            self._stream = self._cupy.cuda.ExternalStream(number)
        else:
            self._stream = self._cupy.cuda.get_current_stream()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(
            target, source, nbytes, runtime.memcpyDefault, self._stream.ptr
        )

    def reduce(
        self, dtype: str, op: str, target: int, sources: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        device = self._cupy.cuda.runtime.getDevice()
        with self._stream:
            reducer(device, dtype, op)(target, sources, count, divisor)

    def write(self, flag: int, number: int) -> None:
        # By default all that comes before can be seen by whoever sees the number.
        self._checked("cuStreamWriteValue32_v2", flag, number, 0)

    def wait(self, flag: int, number: int) -> None:
        self._checked("cuStreamWaitValue32_v2", flag, number, GREATER_OR_EQUAL)

    def to_host(self, pointer: int, target: NDArray[np.uint8]) -> None:
        self.copy(target.ctypes.data, pointer, target.nbytes)
        self._stream.synchronize()

    def to_device(self, pointer: int, source: NDArray[np.uint8]) -> None:
        self.copy(pointer, source.ctypes.data, source.nbytes)
        self._stream.synchronize()

    def _checked(self, name: str, flag: int, number: int, how: int) -> None:
        status = getattr(self._driver, name)(
            ctypes.c_void_p(self._stream.ptr),
            ctypes.c_uint64(flag),
            ctypes.c_uint32(number),
            ctypes.c_uint(how),
        )
        if status:
            raise RuntimeError(
                f"the driver cannot put {name} on a stream (status {status}); devices "
                "need operations on memory in streams, which CUDA 12 has"
            )


def _is_of_torch(buf: Any) -> bool:
    return type(buf).__module__.partition(".")[0] == "torch"


def _memory_of_torch(tensor: Any, caller: str) -> Memory:
    """The memory of a tensor of torch, of which CuPy does not know all dtypes."""
    import torch

    from collalgo.integrations.torch.tensors import array_of

    _check_contiguous(tensor.is_contiguous(), tensor, caller)
    dtype = array_of(torch.empty(0, dtype=tensor.dtype)).dtype
    return Memory(tensor, tensor.data_ptr(), tuple(tensor.shape), dtype)


def _check_contiguous(is_contiguous: bool, buf: Any, caller: str) -> None:
    if not is_contiguous:
        raise ValueError(
            f"{caller}: the elements of this {type(buf).__name__} do not lie one "
            "behind the other; pass a contiguous copy of it"
        )


class _OfThread(local):
    """The runtime of a thread, as streams are those of threads."""

    runtime: Cuda | None = None


_of_thread = _OfThread()


def cuda() -> Cuda:
    """The runtime of this thread."""
    if _of_thread.runtime is None:
        _of_thread.runtime = Cuda()
    return _of_thread.runtime
