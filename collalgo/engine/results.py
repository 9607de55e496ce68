"""Arrays for the results of calls: those of the user, and new ones of their package."""

from typing import Any

import numpy as np

from collalgo.base.foreign import is_immutable, package_of
from collalgo.base.hooks import hook
from collalgo.engine.arrays import Array, as_array, check_output, check_overlap
from collalgo.engine.devices.arrays import Shadow


def output(out: Any, caller: str) -> Array:
    """The array on ``out``, for a result.

    Raises
    ------
    ValueError
        If it is an array of the host that cannot change.
    """
    target = as_array(out, caller)
    if type(out) is np.ndarray or isinstance(target, Shadow) or not is_immutable(out):
        return target
    raise ValueError(
        f"{caller}: out is an array of JAX, which is immutable; pass a NumPy array, or "
        "no out for a new array of JAX"
    )


def result_like(out: Any, source: Array, caller: str) -> Array:
    """The array on ``out``, for a result like ``source``, in place or apart."""
    target = output(out, caller)
    check_output(target, source, source.shape, caller)
    check_overlap(source, target, (source, target), caller)
    return target


def in_place_of(buf: Any, source: Array, caller: str) -> tuple[Any, Array]:
    """The return value of a call in place, and the array to write to.

    They are ``buf`` and ``source``, the array on it, or new ones if that is an array of
    the host that cannot change.
    """
    if is_immutable(buf) and not isinstance(source, Shadow):
        return result_array(buf, None, source, source.shape, caller)
    return buf, source


def result_array(
    buf: Any, out: Any, like: Array, shape: tuple[int, ...], caller: str
) -> tuple[Any, Array]:
    """The return value of a call, ``out`` or a new array, and the array to write to.

    A new array is one of the package of ``buf``, on whose memory ``like`` is.
    """
    if out is None:
        if isinstance(like, Shadow):
            fresh = like.fresh(shape)
            return fresh.on_device(), fresh
        if type(buf) is not np.ndarray and package_of(buf) == "torch":
            fresh = hook("new tensor of torch")(buf, shape)
            return fresh, as_array(fresh, caller)
        return new_array(buf, shape, like.dtype, caller)
    target = output(out, caller)
    check_output(target, like, shape, caller)
    return out, target


def new_of_integers(buf: Any, shape: tuple[int, ...], caller: str) -> tuple[Any, Array]:
    """A new array of int64 of the host for a result, of the package of ``buf``."""
    if package_of(buf) == "torch":
        fresh = hook("empty tensor of torch")("int64", shape)
        return fresh, as_array(fresh, caller)
    return new_array(buf, shape, np.dtype(np.int64), caller)


def new_array(
    buf: Any, shape: tuple[int, ...], dtype: np.dtype[Any], caller: str
) -> tuple[Any, Array]:
    """A new array, of JAX if ``buf`` is, else of NumPy, and the array to write to."""
    if type(buf) is not np.ndarray and is_immutable(buf):
        found: tuple[Any, Array] = hook("new array of JAX")(shape, dtype, caller)
        return found
    target = _new(shape, dtype, caller)
    return target, target


def _new(shape: tuple[int, ...], dtype: np.dtype[Any], caller: str) -> Array:
    """A new array for a result, which may have an axis too many."""
    try:
        return np.empty(shape, dtype)
    except ValueError as error:
        why = f"no array can hold the result ({error}); pass fewer axes, as x.ravel()"
        raise ValueError(f"{caller}: {why}") from None
