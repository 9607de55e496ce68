"""The contributions of shards to a sum: arrays, tensors, or lists or tuples of them."""

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from collalgo.base.arguments import shown
from collalgo.elastic.leaves import is_tensor
from collalgo.elastic.tree_sums import Numbers
from collalgo.engine.arrays import as_array, plain
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.results import result_array

#: The call that errors name.
NAME = "sum_shards"

#: The shapes and dtypes of the arrays of a contribution.
Form = tuple[tuple[tuple[int, ...], ...], tuple[np.dtype[Any], ...]]


class Contributions:
    """Contributions of one form: their elements are added by dtype.

    Parameters
    ----------
    example
        The contribution of the first shard.

    Attributes
    ----------
    form : tuple
        The shapes and the dtypes of the arrays.
    """

    def __init__(self, example: Any):
        self._kind = type(example) if isinstance(example, (list, tuple)) else None
        self._examples = _parts(example)
        self.form = _form([self._checked(each) for each in self._examples])
        #: The shape and the dtype of a contribution that is one array, the usual one.
        self._only: tuple[Any, ...] | None = None
        if type(example) is np.ndarray:
            self._only = example.shape, example.dtype
            self._examples = ()  # which would keep it after the sum

    def _checked(self, part: Any) -> Numbers:
        """An array of the first contribution, after a check that it can be added."""
        with suppress(ValueError):  # of lists of several lengths
            found = _array(part)
            if _can_be_added(found.dtype):
                return found
        where = "" if self._kind is None else f"a {self._kind.__name__} with "
        is_array = isinstance(part, np.ndarray)
        kind = f"{shown(part)}, of type {type(part).__name__}"
        what = f"an array of dtype {part.dtype}" if is_array else kind
        raise TypeError(
            f"{NAME}: of returned {where}{what}, which cannot be added; return an "
            "array or tensor of numbers, a number, or a list or tuple of these"
        )

    @cached_property
    def lengths(self) -> dict[np.dtype[Any], int]:
        """The number of elements of each dtype."""
        found: dict[np.dtype[Any], int] = {}
        for shape, dtype in zip(*self.form, strict=True):
            found[dtype] = found.get(dtype, 0) + math.prod(shape)
        return found

    @property
    def description(self) -> str:
        """The shapes and dtypes of the arrays, in words."""
        arrays = zip(*self.form, strict=True)
        return ", ".join(f"{shape} {dtype}" for shape, dtype in arrays)

    def is_alike(self, contribution: Any) -> bool:
        """Whether a contribution is one array, of this form."""
        if type(contribution) is not np.ndarray:
            return False
        return (contribution.shape, contribution.dtype) == self._only

    def by_dtype(self, contribution: Any) -> list[list[Numbers]]:
        """The flat arrays of the contribution of a shard, for each dtype.

        Raises
        ------
        ValueError
            If they are of another form.
        """
        if self.is_alike(contribution):
            return [[contribution.ravel()]]
        arrays = [_array(each) for each in _parts(contribution)]
        form = _form(arrays)
        if form != self.form:
            shapes, dtypes = map(list, self.form)
            raise ValueError(
                f"sum_shards: a shard has arrays of shapes {list(form[0])} and dtypes "
                f"{list(map(str, form[1]))}, but the first one of this member "
                f"{shapes} and {list(map(str, dtypes))}; all must be alike"
            )
        flat = [each.ravel() for each in arrays]
        if len(self.lengths) == 1:
            return [flat]
        return [[e for e in flat if e.dtype == dtype] for dtype in self.lengths]

    def unpacked(self, totals: Sequence[Numbers]) -> Any:
        """The sum, of the kind of a contribution, from the sums of the dtypes."""
        if self._only is not None:
            shape, total = self._only[0], totals[0]
            return total if len(shape) == 1 else total.reshape(shape)
        found = []
        left = dict(zip(self.lengths, totals, strict=True))
        for shape, dtype, example in zip(*self.form, self._examples, strict=True):
            elements, length = left[dtype], math.prod(shape)
            part, left[dtype] = elements[:length].reshape(shape), elements[length:]
            found.append(_tensor(part, example) if is_tensor(example) else part)
        if self._kind is None:
            return found[0]
        make: Any = getattr(self._kind, "_make", self._kind)  # of a named tuple
        return make(found)


def _form(arrays: Sequence[Numbers]) -> Form:
    return tuple([each.shape for each in arrays]), tuple([e.dtype for e in arrays])


def _can_be_added(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers; those of kind V are of packages, as bfloat16."""
    is_plain = dtype.kind in "biufcm"
    return is_plain or (dtype.kind == "V" and dtype.type is not np.void)


def _parts(contribution: Any) -> Sequence[Any]:
    """The arrays of a contribution."""
    is_several = isinstance(contribution, (list, tuple))
    return contribution if is_several else [contribution]


def _array(part: Any) -> Numbers:
    """An array of a contribution, in the memory of the host."""
    if not is_tensor(part):
        return plain(part, NAME)
    found = as_array(part.detach(), NAME)
    if isinstance(found, Shadow):
        raise TypeError(
            f"{NAME}: got a tensor on {part.device}; pass one in the memory of the "
            "host: x.cpu()"
        )
    return found


def _tensor(array: Numbers, example: Any) -> Any:
    """The elements of an array as a tensor of the dtype of another."""
    found, elements = result_array(example.detach(), None, array, array.shape, NAME)
    elements[...] = array
    return found
