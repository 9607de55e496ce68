"""The memory that objects of other packages describe, and whether it has gaps."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

#: The kinds of numbers in NumPy.
KINDS = "biufc"


class RawMemory(NamedTuple):
    """The bytes of an object.

    Attributes
    ----------
    address, nbytes : int
        Where they begin, and how many they are.
    code : str
        That of the elements; see :func:`code_of`.
    owner : object
        Keeps the memory.
    is_readonly : bool
        Whether they must not be changed.
    """

    address: int
    nbytes: int
    code: str
    owner: Any
    is_readonly: bool


def code_of(kind: str | None, nbytes: int) -> str:
    """The code of numbers of a kind in NumPy; of other elements ``V`` and the bytes."""
    if kind and kind in KINDS:
        with suppress(TypeError):  # such as complex numbers of two float16
            return np.dtype(f"{kind}{nbytes}").char
    return f"V{nbytes}"


def count_of(shape: Sequence[int]) -> int:
    """The number of elements.

    Raises
    ------
    BufferError
        If a length is negative.
    """
    if any(length < 0 for length in shape):
        raise BufferError(f"the shape {tuple(shape)} has a negative length")
    return math.prod(shape)


def check_contiguous(shape: Sequence[int], strides: Sequence[int], step: int) -> None:
    """Check that elements follow each other, in the order of C or of Fortran.

    Parameters
    ----------
    shape, strides
        The length of each axis, and the distance of its elements.
    step
        The distance of elements that follow each other.

    Raises
    ------
    BufferError
        If they do not.
    """
    axes = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n > 1]
    if 0 not in shape and not (_is_nested(axes[::-1], step) or _is_nested(axes, step)):
        raise BufferError(
            f"the array is not contiguous: its shape is {tuple(shape)}, its strides "
            f"are {tuple(strides)}; pass a copy, or a datatype"
        )


def _is_nested(axes: Sequence[tuple[int, int]], step: int) -> bool:
    for length, stride in axes:
        if stride != step:
            return False
        step *= length
    return True
