"""Arrays of any library as NumPy arrays on the same memory."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.devices.arrays import Shadow, is_on_device, shadow_of

Array = NDArray[Any]

#: How hard NumPy may try to tell whether strided arrays overlap.
WORK = 100_000


def as_array(buf: Any, caller: str) -> Array:
    """A NumPy array on the memory of ``buf``, for the call named ``caller``.

    What is on a device has a :class:`~collalgo.devices.arrays.Shadow`.

    Raises
    ------
    TypeError
        If ``buf`` is no array in this machine's memory.
    """
    if type(buf) is np.ndarray:
        return buf
    if isinstance(buf, np.ndarray):
        return buf if isinstance(buf, Shadow) else np.asarray(buf)
    if is_on_device(buf):
        return shadow_of(buf, caller)
    try:
        return np.asarray(memoryview(buf))
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(buf, "__array_interface__"):
        return np.asarray(buf)
    if hasattr(buf, "__dlpack__"):
        try:
            return np.from_dlpack(buf)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(
                f"{caller}: NumPy cannot share the memory of this "
                f"{type(buf).__name__} ({error}); pass a contiguous NumPy array"
            ) from None
    raise TypeError(
        f"{caller}: needs an array (NumPy, buffer protocol or DLPack) but got "
        f"{type(buf).__name__}; wrap it with numpy.array(...)"
    )


def check_output(out: Array, like: Array, shape: tuple[int, ...], caller: str) -> None:
    """See that ``out`` can take a result of ``shape`` and the dtype of ``like``."""
    if out.dtype != like.dtype:
        raise TypeError(
            f"{caller}: out has dtype {out.dtype} but buf has {like.dtype}; "
            "they must be the same"
        )
    if out.shape != shape:
        raise ValueError(
            f"{caller}: out has shape {out.shape} but the result has {shape}; "
            "pass an array of that shape"
        )


def result_like(out: Any, source: Array, caller: str) -> Array:
    """The array on ``out``, which takes a result like ``source``, in place or apart."""
    target = as_array(out, caller)
    check_output(target, source, source.shape, caller)
    check_overlap(source, target, (source, target), caller)
    return target


def check_writeable(array: Array, name: str, caller: str) -> None:
    """See that a result can be written into ``array``."""
    if not array.flags.writeable:
        raise ValueError(
            f"{caller}: {name} is read-only, and the result goes into it; pass a "
            "writeable array" + (" or out=" if name == "buf" else "")
        )


def packed(
    source: Array | None, target: Array | None, caller: str
) -> tuple[Array | None, Array | None]:
    """Contiguous arrays in the place of those of a call; the same if these are one.

    What is in the target is copied too, for not all of it may be written.
    """
    if target is not None:
        check_writeable(target, "buf" if target is source else "out", caller)
    into = None if target is None else np.array(target, order="C")
    if target is source:
        return into, into
    return None if source is None else np.array(source, order="C"), into


def check_overlap(
    buf: Array, out: Array, twins: tuple[Array, Array] | None, caller: str
) -> None:
    """See that ``out`` has memory of its own, unless the ``twins`` are the same memory.

    The twins are the parts of ``buf`` and ``out`` that hold this rank's own elements;
    None where even these may not be the same memory.
    """
    if not np.may_share_memory(buf, out):
        return
    mine, result = twins or (buf, out)
    if twins and _place(mine) == _place(result):
        return
    try:
        overlap = np.shares_memory(buf, out, max_work=WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        overlap = True
    if overlap:
        raise ValueError(
            f"{caller}: out overlaps buf; pass "
            + ("the same memory for this rank's own elements, or " if twins else "")
            + "an array with memory of its own"
        )


def _place(array: Array) -> tuple[object, ...]:
    """Where the elements of an array are."""
    return array.__array_interface__["data"][0], array.strides, array.shape


def result_array(
    out: Any, like: Array, shape: tuple[int, ...], caller: str
) -> tuple[Any, Array]:
    """What a call returns, ``out`` or a new array, and the array that it writes to."""
    if out is None:
        if isinstance(like, Shadow):
            fresh = like.fresh(shape)
            return fresh.on_device(), fresh
        target = np.empty(shape, like.dtype)
        return target, target
    target = as_array(out, caller)
    check_output(target, like, shape, caller)
    return out, target


def check_counts(counts: Sequence[int], size: int, caller: str) -> list[int]:
    """The numbers of rows of all ranks as a list."""
    checked = [int(count) for count in counts]
    if len(checked) != size or min(checked) < 0:
        raise ValueError(
            f"{caller}: counts {checked} must be {size} numbers of rows, one for each "
            "rank, none negative"
        )
    return checked


def length(array: Array, caller: str) -> int:
    """The length of axis 0."""
    if array.ndim == 0:
        raise ValueError(f"{caller}: needs an array with an axis 0, not a 0-d array")
    return len(array)


def row_size(array: Array) -> int:
    """Elements of one row, that is of one place on axis 0."""
    return math.prod(array.shape[1:])
