"""The memory of buffers, whatever their type, as arrays of bytes."""

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.cuda_interface import memory_of_cuda
from collalgo.integrations.as_mpi4py.dlpack import memory_of_dlpack
from collalgo.integrations.as_mpi4py.raw_memory import RawMemory

Bytes = NDArray[np.uint8]

_libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE

#: A bound of the addresses of a process.
MOST_ADDRESS = 1 << 56


class Special:
    """A constant in place of a buffer; each class has one."""

    _name, _number = "", 0
    _only: "Special | None" = None

    def __new__(cls) -> "Special":
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

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


class BottomType(Special):
    """The type of ``MPI.BOTTOM``."""

    _name = "BOTTOM"


class InPlaceType(Special):
    """The type of ``MPI.IN_PLACE``."""

    _name, _number = "IN_PLACE", -1


class BufferAutomaticType(Special):
    """The type of ``MPI.BUFFER_AUTOMATIC``."""

    _name, _number = "BUFFER_AUTOMATIC", -2


#: All memory: datatypes of it have addresses in place of displacements.
BOTTOM = BottomType()
IN_PLACE = InPlaceType()
BUFFER_AUTOMATIC = BufferAutomaticType()


def is_in_place(buf: Any) -> bool:
    """Whether a rank contributes the present content of the result buffer."""
    return buf is None or (isinstance(buf, Special) and buf == IN_PLACE)


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
