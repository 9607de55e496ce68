"""Arrays on devices, as NumPy arrays with the same shape and address."""

from operator import index
from typing import Any

import numpy as np

from collalgo.engine.devices.runtime import Memory, Runtime
from collalgo.errors import CollalgoError

#: DLPack's number of CUDA devices.
CUDA = 2


class Shadow(np.ndarray[Any, Any]):
    """A NumPy array with the address of an array on a device.

    It has its shape, its dtype and its address, so that calls can be checked and cut
    into parts as always. The host must not touch its elements.
    """

    memory: Memory | None = None
    runtime: Runtime

    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, Shadow):
            self.runtime = other.runtime
            self.memory = other.memory

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy an array of a device into all of this, after all work on its stream."""
        if key is not Ellipsis or not isinstance(value, Shadow):
            raise TypeError("elements of an array on a device cannot be set here")
        if value.runtime.stream != self.runtime.stream:
            self.runtime.after(value.runtime.mark())
        self.runtime.copy(self.pointer, value.pointer, self.nbytes)

    def __repr__(self) -> str:
        return f"<array on a device, shape {self.shape}, {self.dtype}>"

    __str__ = __repr__

    @property
    def pointer(self) -> int:
        """The address; faster than ``ctypes.data``."""
        return int(self.__array_interface__["data"][0])

    def fresh(self, shape: tuple[int, ...]) -> "Shadow":
        """A new array on the device, of the same dtype."""
        return shadow(self.runtime, self.runtime.empty(shape, self.dtype))

    def on_device(self) -> Any:
        """The array of the device's package on the same memory."""
        assert self.memory is not None
        if (self.pointer, self.shape) == (self.memory.pointer, self.memory.shape):
            return self.memory.array
        whole = self.memory.array
        return self.runtime.part(whole, self.pointer, self.shape, self.dtype)


class _Interface:
    """The array interface of foreign memory for NumPy."""

    def __init__(self, memory: Memory, typestr: str):
        self.__array_interface__ = {
            "data": (memory.pointer, not memory.writeable),
            "shape": memory.shape,
            "typestr": typestr,
            "version": 3,
        }


def shadow(runtime: Runtime, memory: Memory) -> Shadow:
    """The shadow of an array on a device."""
    dtype = memory.dtype
    if dtype.isbuiltin == 1:
        array = np.asarray(_Interface(memory, dtype.str))
    else:  # of ml_dtypes, without a type string
        array = np.asarray(_Interface(memory, f"|V{dtype.itemsize}")).view(dtype)
    found = array.view(Shadow)
    found.runtime, found.memory = runtime, memory
    return found


def is_on_device(buf: Any) -> bool:
    """Whether an object is an array in the memory of a CUDA device."""
    if isinstance(buf, type):  # a class of arrays, not an array
        return False
    if offers(buf, "__dlpack_device__"):
        device = _device(buf)
        return device is not None and device[0] == CUDA
    return offers(buf, "__cuda_array_interface__")


def offers(buf: Any, protocol: str) -> bool:
    """Whether an object has an attribute that raises nothing when it is read."""
    try:
        return hasattr(buf, protocol)
    except CollalgoError:  # of a call that the object's own code makes
        raise
    except Exception:  # of that code
        return False


def _device(buf: Any) -> tuple[int, int] | None:
    """The type and the number of the device of an array, unless these are nonsense."""
    try:
        kind, number = buf.__dlpack_device__()
        return index(kind), index(number)
    except Exception:  # of the object's own code
        return None


def device_of(buf: Any) -> int | None:
    """The device of an array; None if unknown."""
    device = _device(buf) if offers(buf, "__dlpack_device__") else None
    return None if device is None else device[1]


def shadow_of(buf: Any, caller: str) -> Shadow:
    """The shadow of an argument of a call.

    Raises
    ------
    ImportError, RuntimeError
        If CUDA cannot be used here.
    ValueError
        If the elements are not contiguous.
    """
    runtime = runtime_of(device_of(buf))
    runtime.follow(buf)
    return shadow(runtime, runtime.memory(buf, caller))


def for_another_thread(buf: Any, caller: str) -> Any:
    """An argument for the thread that makes the call instead of this one.

    That is the shadow of an array on a device, with the stream that is current; all
    else is as it is.
    """
    if isinstance(buf, np.ndarray) or not is_on_device(buf):
        return buf
    found = shadow_of(buf, caller)
    found.runtime = found.runtime.as_now()
    return found


def runtime_of(device: int | None) -> Runtime:
    """The runtime of this thread for arrays on a device, or on the current one."""
    from collalgo.engine.devices.cuda import cuda

    return cuda(device)
