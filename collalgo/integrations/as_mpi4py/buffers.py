"""Bytes that programs handle as such: ``MPI.buffer``."""

from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.dlpack import is_on_device
from collalgo.integrations.as_mpi4py.memory import at_address, memory_of


class Buffer(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes that share their memory with an object; ``MPI.buffer``."""

    #: The object, and whether it says that its memory is that of a device.
    _obj: Any = None
    _is_on_device = _is_released = False

    def __new__(cls, *given: Any) -> "Buffer":
        if given:
            return cls.frombuffer(*given)
        empty = cls.allocate(0)
        empty.release()
        return empty

    @classmethod
    def frombuffer(cls, obj: Any, readonly: bool = False) -> "Buffer":
        """The bytes of an object."""
        if obj is None:
            raise TypeError("None is not a buffer; pass an object with one")
        found = memory_of(obj, writable=False)[0].view(cls)
        if readonly:
            found.flags.writeable = False
        found._obj, found._is_on_device = obj, _is_on_device(obj)
        return found

    @classmethod
    def allocate(cls, nbytes: int, clear: bool = False) -> "Buffer":
        """New memory."""
        if nbytes < 0:
            raise ValueError(f"the number of bytes is {nbytes}; pass 0 or more")
        memory = (np.zeros if clear else np.empty)(nbytes, np.uint8)
        found = memory.view(cls)
        found._obj = memory
        return found

    @classmethod
    def fromaddress(cls, address: int, nbytes: int, readonly: bool = False) -> "Buffer":
        """The bytes at an address."""
        if nbytes < 0 or (nbytes and not address):
            raise ValueError(f"no buffer of {nbytes} bytes can be at address {address}")
        found = at_address(address, nbytes, None).view(cls)
        if readonly:
            found.flags.writeable = False
        return found

    @property
    def address(self) -> int:
        return 0 if self._is_released else int(self.ctypes.data)

    @property
    def nbytes(self) -> int:
        return 0 if self._is_released else self.size

    @property
    def readonly(self) -> bool:
        return not (self._is_released or self.flags.writeable)

    @property
    def format(self) -> str:
        return "B"

    @property
    def obj(self) -> Any:
        return self._obj

    def __getitem__(self, item: Any) -> Any:
        self._check_host()
        _check_item(item)
        found = super().__getitem__(item)
        if not isinstance(item, slice):
            return int(found)
        found._obj = self
        return found

    def __setitem__(self, item: Any, value: Any) -> None:
        self._check_host()
        _check_item(item)
        if not self.flags.writeable:
            raise TypeError("the buffer is read-only")
        if isinstance(item, slice) and not isinstance(value, int):
            value = memory_of(value, writable=False)[0]
            if len(value) != len(self[item]):
                raise ValueError(f"{len(self[item])} bytes are set to {len(value)}")
        super().__setitem__(item, value)

    def __delitem__(self, item: Any) -> None:
        raise NotImplementedError("bytes of a buffer cannot be deleted")

    def __eq__(self, other: Any) -> Any:
        return self._view() == other

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = None

    def _check_host(self) -> None:
        if self._is_on_device:
            raise BufferError("the buffer is that of a device; copy it to the host")

    def _view(self) -> Any:
        self._check_host()
        return memoryview(np.asarray(self).data)

    def cast(self, format: str, *shape: Any) -> Any:  # noqa: A002
        """The same bytes with another format, as of a memoryview."""
        return self._view().cast(format, *shape)

    def tobytes(self, order: Any = None) -> bytes:
        """A copy."""
        del order
        self._check_host()
        return np.asarray(self).tobytes()

    def toreadonly(self) -> "Buffer":
        """The same bytes, which cannot be changed."""
        found = type(self).frombuffer(self, readonly=True)
        found._obj = self._obj
        return found

    def release(self) -> None:
        """Release the object; the bytes must not be accessed any more."""
        self._obj, self._is_released = None, True


def _check_item(item: Any) -> None:
    """Check an index, or a slice, whose bytes are adjacent."""
    if isinstance(item, slice):
        if item.step not in (None, 1):
            raise IndexError(f"the step {item.step} is not 1")
    elif not hasattr(item, "__index__"):
        raise TypeError(f"{item!r} is not an index, nor a slice")


def _is_on_device(obj: Any) -> bool:
    """Whether an object says that its memory is that of a device."""
    if hasattr(obj, "__dlpack_device__"):
        return is_on_device(obj)
    return hasattr(obj, "__cuda_array_interface__")
