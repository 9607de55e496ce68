"""The memory of objects with the interface of CUDA arrays."""

import warnings
from typing import Any

from collalgo.integrations.as_mpi4py.raw_memory import (
    RawMemory,
    check_contiguous,
    code_of,
    count_of,
)


def memory_of_cuda(obj: Any) -> RawMemory:
    """The memory of an object whose ``__cuda_array_interface__`` is not None.

    Raises
    ------
    BufferError
        If it has gaps or a mask.
    KeyError, TypeError, ValueError
        If the interface lacks an item, or has a wrong one.
    """
    interface = obj.__cuda_array_interface__
    address, is_readonly = interface["data"]
    code, itemsize = _element(interface["typestr"])
    shape, strides = interface["shape"], interface.get("strides")
    if interface.get("mask") is not None:
        raise BufferError("the array has a mask; pass one without")
    nbytes = count_of(shape) * itemsize
    if strides is not None:
        check_contiguous(shape, strides, itemsize)
    _warn_of_fields(interface)
    return RawMemory(address or 0, nbytes, code, obj, bool(is_readonly))


def _element(typestr: Any) -> tuple[str, int]:
    """The code of the elements, and their bytes."""
    order, kind, itemsize = typestr[0:1], typestr[1:2], int(typestr[2:])
    if order == ">":
        return typestr, itemsize
    if order not in ("|", "<"):
        raise BufferError(f"elements {typestr!r} have no known byte order")
    return code_of(kind, itemsize), itemsize


def _warn_of_fields(interface: dict[str, Any]) -> None:
    """Warn if the elements have fields, which move as bytes."""
    fields = interface.get("descr")
    if fields is not None and (
        len(fields) != 1 or fields[0] != ("", interface["typestr"])
    ):
        warnings.warn(
            f"the fields {fields} of the elements are ignored; they move as bytes",
            RuntimeWarning,
            stacklevel=2,
        )
