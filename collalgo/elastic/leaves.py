"""The leaves of a state with elements: arrays of NumPy, and tensors of torch."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.base.cache import recalled

#: An array of NumPy, or a tensor of torch.
ArrayLeaf = Any

#: The bytes of an array.
Bytes = NDArray[np.uint8]


class Form(NamedTuple):
    """The shape and dtype of an array.

    Attributes
    ----------
    kind : str
        ``numpy`` or ``torch``.
    dtype : str
        Its dtype, as NumPy or torch name it.
    shape : tuple of int
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]


#: Whether the classes of values are those of tensors.
_ARE_TENSORS: dict[type, bool] = {}


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch, without importing torch."""
    return recalled(_ARE_TENSORS, type(value), _is_of_tensors)


def _is_of_tensors(kind: type) -> bool:
    """Whether a class is that of tensors, or derived from it."""
    return any(
        each.__module__.startswith("torch") and each.__name__ == "Tensor"
        for each in kind.__mro__
    )


def is_array(value: object) -> bool:
    """Whether a value is an array or tensor whose elements are plain numbers."""
    if isinstance(value, np.ndarray):
        return not (value.dtype.hasobject or value.dtype.names)
    return is_tensor(value)


def form_of(array: ArrayLeaf) -> Form:
    """The shape and dtype of an array."""
    kind = "torch" if is_tensor(array) else "numpy"
    return Form(kind, _name_of(array.dtype), tuple(array.shape))


@lru_cache
def _name_of(dtype: Any) -> str:
    """A dtype as NumPy or torch name it."""
    return str(dtype).removeprefix("torch.")


def are_alike(one: ArrayLeaf, other: ArrayLeaf) -> bool:
    """Whether two arrays have the same form."""
    is_one_kind = is_tensor(one) == is_tensor(other)
    return is_one_kind and one.dtype == other.dtype and one.shape == other.shape


def empty(form: Form, like: ArrayLeaf = None) -> ArrayLeaf:
    """A new array of some form, on the device of another."""
    if form.kind == "numpy":
        return np.empty(form.shape, form.dtype)
    import torch

    device = like.device if is_tensor(like) else None
    return torch.empty(form.shape, dtype=getattr(torch, form.dtype), device=device)


def writeable(array: ArrayLeaf) -> ArrayLeaf | None:
    """An array that can be copied into; None if it is read-only."""
    return array if is_tensor(array) or array.flags.writeable else None


def copy_into(target: ArrayLeaf, source: ArrayLeaf) -> None:
    """Copy an array into another of the same form."""
    if is_tensor(target):
        target.detach().copy_(source.detach())
    else:
        np.copyto(target, source)


def raw(array: ArrayLeaf) -> Bytes:
    """The elements of an array as bytes: its own memory, if that can be shared."""
    if is_tensor(array):
        import torch

        flat = array.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found: Bytes = flat.numpy()
        return found
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def description(form: Form | None) -> str:
    """A form in words."""
    if form is None:
        return "nothing"
    what = "a tensor" if form.kind == "torch" else "an array"
    return f"{what} of {form.dtype} with shape {form.shape}"
