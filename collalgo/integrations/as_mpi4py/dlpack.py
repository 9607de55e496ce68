"""The memory of objects with DLPack, of any dtype, as NumPy's reader has fewer."""

import ctypes
from collections.abc import Sequence
from operator import index
from typing import Any, ClassVar

from collalgo.integrations.as_mpi4py.raw_memory import (
    RawMemory,
    check_contiguous,
    code_of,
    count_of,
)

CPU, PINNED = 1, 3

#: The kinds of NumPy of the codes of DLPack.
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}

#: The bit of the flags of a tensor that must not be changed.
READ_ONLY = 1


class Tensor(ctypes.Structure):
    """The tensor of a capsule."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    """The content of a capsule since version 1."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def memory_of_dlpack(obj: Any) -> RawMemory:
    """The memory of a tensor.

    Raises
    ------
    BufferError
        If it has gaps or parts of bytes as elements, or its capsule is invalid.
    """
    capsule = _capsule(obj)
    tensor, is_readonly = _tensor(capsule)
    shape = _integers(tensor.shape, tensor.ndim)
    if shape is None:
        raise BufferError(f"the DLPack tensor has {tensor.ndim} axes and no shape")
    count = count_of(shape)
    strides = _integers(tensor.strides, tensor.ndim)
    if strides is not None:
        check_contiguous(shape, strides, 1)
    nbytes, odd = divmod(tensor.bits * tensor.lanes, 8)
    if odd:
        raise BufferError(
            f"the DLPack tensor has elements of {8 * nbytes + odd} bits, which may "
            "share bytes; pass whole bytes"
        )
    address = (tensor.data or 0) + tensor.byte_offset
    return RawMemory(
        address, count * nbytes, _code(tensor, nbytes), capsule, is_readonly
    )


def is_on_device(obj: Any) -> bool:
    """Whether a tensor says that its memory is that of a device."""
    return _device_type(obj) not in (CPU, PINNED)


def _device_type(obj: Any) -> int:
    device_type, device = map(index, obj.__dlpack_device__())
    del device
    return device_type


def _capsule(obj: Any) -> Any:
    """The capsule of the tensor, of the latest version that it has."""
    stream = {"stream": -1} if is_on_device(obj) else {}
    try:
        return obj.__dlpack__(**stream, max_version=(1, 0), copy=False)
    except TypeError:  # older than version 1
        return obj.__dlpack__(**stream)


def _tensor(capsule: Any) -> tuple[Tensor, bool]:
    """The tensor of a capsule, and whether it must not be changed."""
    if _is_valid(capsule, b"dltensor"):
        return Tensor.from_address(_pointer(capsule, b"dltensor")), False
    if not _is_valid(capsule, b"dltensor_versioned"):
        raise BufferError("the DLPack capsule has been consumed, or is of another kind")
    found = Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
    if found.major != 1:
        raise BufferError(f"the DLPack capsule has version {found.major} instead of 1")
    return found.tensor, bool(found.flags & READ_ONLY)


def _integers(pointer: Any, number: int) -> Sequence[int] | None:
    """The lengths or the strides of some axes; None if they are not given."""
    if number < 0:
        raise BufferError(f"the DLPack tensor has {number} axes")
    if not number:
        return ()
    return pointer[:number] if pointer else None


def _code(tensor: Tensor, nbytes: int) -> str:
    """The code of the elements in NumPy; pairs of floats are complex numbers."""
    kind = KINDS.get(tensor.code)
    if kind == "f" and tensor.lanes == 2:
        kind = "c"
    elif tensor.lanes != 1:
        kind = None
    return code_of(kind, nbytes)
