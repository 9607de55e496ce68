"""The memory of objects with DLPack, of any dtype, as NumPy's reader has fewer."""

import ctypes
import math
from typing import Any, ClassVar

import numpy as np

CPU, PINNED = 1, 3

#: The bytes in front of the tensor, by the name of the capsule.
HEADS = {b"dltensor": 0, b"dltensor_versioned": 32}

#: The kinds of NumPy of the codes of DLPack.
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


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


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]


def memory_of_dlpack(obj: Any) -> tuple[int, int, str, Any]:
    """The address and the bytes of a tensor, its code in NumPy, and its capsule.

    Raises
    ------
    BufferError
        If it is not contiguous, or of a dtype that NumPy does not have.
    """
    on_host = obj.__dlpack_device__()[0] in (CPU, PINNED)
    capsule = obj.__dlpack__() if on_host else obj.__dlpack__(stream=-1)
    if (name := _name(capsule)) not in HEADS:
        raise BufferError("the DLPack capsule has been consumed, or is of another kind")
    tensor = Tensor.from_address(_pointer(capsule, name) + HEADS[name])
    shape = tensor.shape[: tensor.ndim]
    if tensor.strides and not _is_contiguous(shape, tensor.strides[: tensor.ndim]):
        raise BufferError("the tensor is not contiguous")
    dtype = _dtype_of(tensor)
    address = (tensor.data or 0) + tensor.byte_offset
    return address, math.prod(shape) * dtype.itemsize, dtype.char, capsule


def _dtype_of(tensor: Tensor) -> np.dtype[Any]:
    """The dtype of NumPy; pairs of floats are complex numbers."""
    kind, nbytes = KINDS.get(tensor.code), tensor.bits * tensor.lanes // 8
    if kind == "f" and tensor.lanes == 2:
        return np.dtype(f"c{nbytes}")
    if kind is None or tensor.lanes != 1:
        raise BufferError(
            f"NumPy has no dtype for {tensor.lanes} elements of {tensor.bits} bits "
            f"with the DLPack type code {tensor.code}"
        )
    return np.dtype(f"{kind}{nbytes}")


def _is_contiguous(shape: list[int], strides: list[int]) -> bool:
    """Whether the elements follow each other, in the order of C or of Fortran."""
    if 0 in shape:
        return True
    axes = [(n, step) for n, step in zip(shape, strides, strict=True) if n > 1]
    return _is_nested(axes[::-1]) or _is_nested(axes)


def _is_nested(axes: list[tuple[int, int]]) -> bool:
    expected = 1
    for length, step in axes:
        if step != expected:
            return False
        expected *= length
    return True
