"""The memory of buffers, whatever their type, as arrays of bytes."""

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.cuda_interface import memory_of_cuda
from collalgo.integrations.as_mpi4py.dlpack import is_on_device, memory_of_dlpack
from collalgo.integrations.as_mpi4py.raw_memory import RawMemory

Bytes = NDArray[np.uint8]

_libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE

#: A bound of the addresses of a process.
MOST_ADDRESS = 1 << 56


class Special:
    """A constant in place of a buffer."""

    def __init__(self, name: str, number: int):
        self._name, self._number = name, number

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name

    def __int__(self) -> int:
        return self._number

    def __bool__(self) -> bool:
        return self._number != 0

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is int and other == self._number)

    def __hash__(self) -> int:
        return hash(self._number)


#: All memory: datatypes of it have addresses in place of displacements.
BOTTOM = Special("BOTTOM", 0)
IN_PLACE = Special("IN_PLACE", -1)
BUFFER_AUTOMATIC = Special("BUFFER_AUTOMATIC", -2)


def is_in_place(buf: Any) -> bool:
    """Whether a rank contributes the present content of the result buffer."""
    return buf is None or (isinstance(buf, Special) and buf == IN_PLACE)


class Buffer(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes that share their memory with an object; ``MPI.buffer``."""

    #: Whether the object says that its memory is that of a device.
    _is_on_device = False

    def __new__(cls, buf: Any = b"") -> "Buffer":
        return cls.frombuffer(buf)

    @classmethod
    def frombuffer(cls, obj: Any, readonly: bool = False) -> "Buffer":
        """The bytes of an object."""
        found = memory_of(obj, writable=False)[0].view(cls)
        if readonly:
            found.flags.writeable = False
        found._is_on_device = _is_on_device(obj)
        return found

    @classmethod
    def allocate(cls, nbytes: int, clear: bool = False) -> "Buffer":
        """New memory."""
        if nbytes < 0:
            raise ValueError(f"the number of bytes is {nbytes}; pass 0 or more")
        return (np.zeros if clear else np.empty)(nbytes, np.uint8).view(cls)

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
        return int(self.ctypes.data)

    @property
    def readonly(self) -> bool:
        return not self.flags.writeable

    @property
    def format(self) -> str:
        return "B"

    @property
    def obj(self) -> Any:
        return self if self.size else None

    def __getitem__(self, item: Any) -> Any:
        self._check_host()
        found = super().__getitem__(item)
        return found if isinstance(item, slice) else int(found)

    def __setitem__(self, item: Any, value: Any) -> None:
        self._check_host()
        if isinstance(item, slice) and not isinstance(value, int):
            value = memory_of(value, writable=False)[0]
            if len(value) != len(self[item]):
                raise ValueError(f"{len(self[item])} bytes are set to {len(value)}")
        super().__setitem__(item, value)

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
        return type(self).frombuffer(self, readonly=True)

    def release(self) -> None:
        """Release the object, whose memory is left alone."""
        self.resize(0, refcheck=False) if self.base is None else None


def memory_of(obj: Any, *, writable: bool) -> tuple[Bytes, str]:
    """The bytes of a buffer, and the code of its elements.

    The code begins with ``>`` if they have the other byte order.

    Those of ``BOTTOM`` begin at :func:`origin`: no array begins at address 0.

    Raises
    ------
    TypeError
        If it is not a buffer.
    BufferError
        If it is not contiguous, or cannot be written to.
    """
    if type(obj) is np.ndarray:
        found, code = _of_array(obj), _code_of(obj.dtype)
    elif obj is None:
        return np.empty(0, np.uint8), "B"
    elif obj is BOTTOM:
        return at_address(PAGE, MOST_ADDRESS - PAGE, None), "MPI.BOTTOM"
    elif isinstance(obj, Special):
        raise TypeError(f"MPI.{obj!r} is not a buffer here; pass an array")
    else:
        found, code = _of_other(obj)
    if writable and not found.flags.writeable:
        raise BufferError(f"{type(obj).__name__} is read-only, and data goes into it")
    return found, code


def origin(buf: Any) -> int:
    """The byte of a buffer to which displacements refer."""
    return -PAGE if buf is BOTTOM else 0


def _code_of(dtype: np.dtype[Any]) -> str:
    """The code of elements, which begins with ``>`` if they have the other order."""
    return dtype.char if dtype.isnative else f">{dtype.char}"


def _of_array(array: NDArray[Any]) -> Bytes:
    flags = array.flags
    if not flags.forc:
        raise BufferError("the array is not contiguous; pass a copy, or a datatype")
    return (array if flags.c_contiguous else array.T).reshape(-1).view(np.uint8)


def _of_other(obj: Any) -> tuple[Bytes, str]:
    """The bytes of an object that is not an array of NumPy."""
    try:
        view = memoryview(obj)
    except TypeError:
        return _of_interface(obj)
    if not view.contiguous:
        raise BufferError("the buffer is not contiguous; pass a copy, or a datatype")
    code = view.format or "B"
    if not view.c_contiguous:
        return _of_array(np.asarray(view)), code.lstrip("@<=")
    return np.frombuffer(view, np.uint8), code.lstrip("@<=")


def _of_interface(obj: Any) -> tuple[Bytes, str]:
    """The bytes of an object with DLPack or the interface of CUDA arrays."""
    found = _raw(obj)
    if found is None:
        raise TypeError(
            f"{type(obj).__name__} is not a buffer; pass an array, or a list of one "
            "and its count or datatype"
        )
    _check_mapped(found.address, found.nbytes)
    array = at_address(found.address, found.nbytes, found.owner)
    array.flags.writeable = not found.is_readonly
    return array, found.code


def _raw(obj: Any) -> RawMemory | None:
    """The memory of an object that has an interface, if it has one."""
    if hasattr(obj, "__dlpack_device__") and hasattr(obj, "__dlpack__"):
        return memory_of_dlpack(obj)
    if getattr(obj, "__cuda_array_interface__", None) is not None:
        return memory_of_cuda(obj)
    return None


def _is_on_device(obj: Any) -> bool:
    """Whether an object says that its memory is that of a device."""
    if hasattr(obj, "__dlpack_device__"):
        return is_on_device(obj)
    return hasattr(obj, "__cuda_array_interface__")


def _check_mapped(address: int, nbytes: int) -> None:
    """Refuse memory that the host cannot read."""
    first = address // PAGE * PAGE
    length = address + nbytes - first
    pages = ctypes.create_string_buffer(-(-length // PAGE))
    start, size = ctypes.c_void_p(first), ctypes.c_size_t(length)
    if nbytes and _libc.mincore(start, size, pages):
        raise NotImplementedError(
            "arrays in device memory are not supported; pass a copy in host memory"
        )


def at_address(address: int, nbytes: int, owner: Any) -> Bytes:
    """The bytes at an address; their owner lives as long as the array."""
    if not nbytes:
        return np.empty(0, np.uint8)
    raw: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    raw.owner = owner
    return np.frombuffer(raw, np.uint8)
