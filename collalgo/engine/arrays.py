"""Arrays of any library as NumPy arrays on the same memory."""

import math
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.base.foreign import is_immutable, package_of
from collalgo.base.hooks import hook
from collalgo.engine.devices.arrays import Shadow, is_on_device, offers, shadow_of
from collalgo.errors import CollalgoError

Array = NDArray[Any]

#: The limit of NumPy's search for an overlap of strided arrays.
WORK = 100_000


#: The threads that run the code of an object to find its array; it may make calls.
READING: list[int] = []


def as_array(buf: Any, caller: str) -> Array:
    """A NumPy array on the memory of ``buf``, for the call named ``caller``.

    An array on a device has a :class:`~collalgo.engine.devices.arrays.Shadow`.

    Raises
    ------
    TypeError
        If ``buf`` is not an array in this machine's memory.
    """
    if type(buf) is np.ndarray:
        return buf
    if isinstance(buf, np.ndarray):
        return buf if isinstance(buf, Shadow) else plain(buf, caller)
    me = get_ident()
    READING.append(me)
    try:
        return _of_other(buf, caller)
    finally:
        READING.remove(me)


def _of_other(buf: Any, caller: str) -> Array:
    """The array on an object of another package, which runs code of its own."""
    if is_on_device(buf):
        return shadow_of(buf, caller)
    if is_immutable(buf):
        return _of_jax(buf, caller)
    found = _of_buffer(buf)
    if found is None:
        found = _by_protocol(buf, caller)
    if found is None:
        raise TypeError(
            f"{caller}: needs an array (NumPy, buffer protocol or DLPack) but got "
            f"{type(buf).__name__}; {_advice(buf)}"
        )
    return found


def _of_jax(buf: Any, caller: str) -> Array:
    """The array on one of JAX, which has no buffer of some dtypes."""
    array = _shared(np.asarray, buf, caller)
    if array.dtype.name in PACKED:  # on each rank, also where it is only read
        raise TypeError(
            f"{caller}: JAX has no arrays of dtype {array.dtype} on memory of NumPy, "
            "for results; pass numpy.asarray(x)"
        )
    return array


def _of_buffer(buf: Any) -> Array | None:
    """The array on an object with a buffer, or of a scalar."""
    try:
        is_scalar = isinstance(buf, np.generic)
        return _of_scalar(buf) if is_scalar else np.asarray(memoryview(buf))
    except Exception:  # of the object's own code
        return None


def _by_protocol(buf: Any, caller: str) -> Array | None:
    """The array on an object with a protocol of arrays."""
    if isinstance(buf, type):  # a class of arrays has the protocol, but no memory
        return None
    if offers(buf, "__array_interface__"):
        return _shared(np.asarray, buf, caller)
    if offers(buf, "__dlpack__"):
        return _shared(np.from_dlpack, buf, caller)
    return None


def _of_scalar(buf: "np.generic[Any]") -> Array:
    """A read-only array of a scalar, as a result in it would be lost."""
    array = np.asarray(buf)  # a copy of one of ml_dtypes, which has no buffer
    array.flags.writeable = False
    return array


def _shared(load: Callable[[Any], Array], buf: Any, caller: str) -> Array:
    try:
        return load(buf)
    except CollalgoError:  # of a call that the object's own code makes
        raise
    except Exception as error:  # of that code
        if package_of(buf) == "torch":  # which has dtypes that DLPack does not have
            narrow: Array | None = hook("narrow array of torch")(buf)
            if narrow is not None:
                return narrow
        why = str(error).partition("\n")[0]
        compiled = (
            "in a function that JAX compiles call by jax.experimental.io_callback"
        )
        advice = compiled if is_immutable(buf) else "pass a contiguous NumPy array"
        raise TypeError(
            f"{caller}: NumPy cannot share the memory of this "
            f"{type(buf).__name__} ({why}); {advice}"
        ) from None


def plain(array: Array, caller: str) -> Array:
    """A value as a plain NumPy array; a masked array is refused."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: got a masked array, but calls ignore masks; pass x.filled(0), "
            "or x.data to include the masked elements"
        )
    return np.asarray(array)


#: The dtypes of which JAX packs several elements into a byte, as NumPy does not.
PACKED = ("int1", "int2", "int4", "uint1", "uint2", "uint4", "float4_e2m1fn")

#: The advice for objects that are not arrays, by their package.
ADVICE = {
    "pandas": "pass its copy x.to_numpy(copy=True), which then holds the result",
    "polars": "pass its copy numpy.array(x), which then holds the result",
    "xarray": "pass its array, x.values",
    "scipy": "pass x.toarray(), or x.data if all ranks have the same sparsity",
    "sparse": "pass x.todense(), or x.data if all ranks have the same sparsity",
}


def _advice(buf: Any) -> str:
    """The advice for an object that is not an array."""
    if isinstance(buf, list | tuple | int | float | complex | np.generic):
        return "wrap it with numpy.array(...)"
    if isinstance(buf, type):
        return f"{buf.__name__} is a class: pass one of its arrays"
    if buf is None:
        return (
            "also a rank that only receives passes an array, out= to a scatter, or "
            "like=None to a broadcast of what only the root knows"
        )
    if isinstance(buf, dict | set | frozenset | str | bytes):
        return "use the call for objects of Python, as broadcast_object or send_object"
    return ADVICE.get(package_of(buf), "pass the data as an array")


def check_output(
    out: Array,
    like: Array,
    shape: tuple[int, ...],
    caller: str,
    names: tuple[str, str] = ("out", "buf"),
) -> None:
    """Check that ``out`` can hold a result of ``shape`` and the dtype of ``like``.

    The ``names`` are those of both in errors.
    """
    if out.dtype != like.dtype:
        raise TypeError(
            f"{caller}: {names[0]} has dtype {out.dtype} but {names[1]} has "
            f"{like.dtype}; they must be the same"
        )
    if out.shape != shape:
        raise ValueError(
            f"{caller}: {names[0]} has shape {out.shape} but the result has {shape}; "
            "pass an array of that shape"
        )


def check_writeable(array: Array, name: str, caller: str) -> None:
    """Check that a result can be written into ``array``."""
    if not array.flags.writeable:
        raise ValueError(
            f"{caller}: {name} is read-only but the result is written to it; pass a "
            "writeable array" + (" or out=" if name == "buf" else "")
        )


def check_apart(array: Array, name: str, caller: str) -> None:
    """Check that no two elements of the target of a result share memory."""
    if array.flags.forc or not _overlaps_itself(array):
        return
    raise ValueError(
        f"{caller}: some elements of {name} share their memory (shape {array.shape}, "
        f"strides {array.strides}), but the result is written to it; pass a copy of it"
        + (" or out=" if name == "buf" else "")
    )


def _overlaps_itself(array: Array) -> bool:
    """Whether elements of an array may share memory.

    They do not if the stride of each axis exceeds the span of all axes of smaller
    strides.
    """
    if array.size == 0:
        return False
    span = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, length in sorted(axes):
        if length > 1 and stride < span:
            return True
        span += stride * (length - 1)
    return False


def check_packable(source: Array | None, target: Array | None, caller: str) -> None:
    """Check that the result of a call can be unpacked."""
    if target is not None:
        name = "buf" if target is source else "out"
        check_writeable(target, name, caller)
        check_apart(target, name, caller)


def packed(
    source: Array | None, target: Array | None, caller: str
) -> tuple[Array | None, Array | None]:
    """Contiguous copies of the arrays of a call; a single one if these are the same.

    The content of the target is copied too, as a call may not write all of it.
    """
    check_packable(source, target, caller)
    into = None if target is None else np.array(target, order="C")
    if target is source:
        return into, into
    return None if source is None else np.array(source, order="C"), into


def check_overlap(
    buf: Array, out: Array, twins: tuple[Array, Array] | None, caller: str
) -> None:
    """Check that ``out`` does not overlap ``buf``, except where the ``twins`` coincide.

    The twins are the parts of ``buf`` and ``out`` with this rank's own elements; None
    if these must not coincide either.
    """
    if not np.may_share_memory(buf, out):
        return
    if twins and _place(twins[0]) == _place(twins[1]):
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


def bounds(array: Array) -> tuple[int, int]:
    """The addresses of the first byte of an array and after the last."""
    low = high = int(array.__array_interface__["data"][0])
    if array.size == 0:
        return low, low
    for stride, length in zip(array.strides, array.shape, strict=True):
        low += min(stride, 0) * (length - 1)
        high += max(stride, 0) * (length - 1)
    return low, high + array.itemsize


def _place(array: Array) -> tuple[object, ...]:
    """The addresses of the elements of an array, as a comparable value."""
    return array.__array_interface__["data"][0], array.strides, array.shape


def length(array: Array, caller: str) -> int:
    """The length of axis 0."""
    if array.ndim == 0:
        raise ValueError(f"{caller}: needs an array with an axis 0, not a 0-d array")
    return len(array)


def row_size(array: Array) -> int:
    """The elements of one row, that is of one index of axis 0."""
    return math.prod(array.shape[1:])
