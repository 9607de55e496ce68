"""A copy of the values of a state at one commit; its memory is reused."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from collalgo._kernels.elastic.commits import copy_again
from collalgo._kernels.elastic.xxh64 import xxh64
from collalgo.elastic.leaves import (
    ArrayLeaf,
    Form,
    are_alike,
    copy_into,
    empty,
    form_of,
    raw,
)
from collalgo.elastic.tree import encode, forms, unflatten

#: Bytes of the hash of a state.
HASH_BYTES = 16


class Snapshot:
    """The values of a state at a revision.

    Attributes
    ----------
    revision : int
        The number of commits before and with this one.
    skeleton
        The values without the elements of arrays; see :mod:`.tree`.
    arrays : list
        Copies of their arrays, in order.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.skeleton: Any = None
        self.arrays: list[ArrayLeaf] = []

    def take(self, revision: int, skeleton: Any, arrays: list[ArrayLeaf]) -> None:
        """Copy values; arrays that look as before are copied into the same memory."""
        if copy_again(self.arrays, arrays):  # mostly
            self.skeleton = skeleton
        else:
            self._copy(skeleton, arrays)
        self.revision = revision

    def _copy(self, skeleton: Any, arrays: list[ArrayLeaf]) -> None:
        """Copy any values."""
        if len(arrays) == len(self.arrays) and all(map(are_alike, self.arrays, arrays)):
            self.skeleton = skeleton
        else:
            self.make_room(skeleton, arrays)
        for target, source in zip(self.arrays, arrays, strict=True):
            copy_into(target, source)

    def make_room(self, skeleton: Any, like: Sequence[ArrayLeaf] = ()) -> None:
        """Have an array for each of a skeleton, on the devices of others."""
        wanted, before = list(forms(skeleton)), self.arrays
        known = dict(enumerate(before))
        self.arrays = [
            known[i]
            if i in known and form_of(known[i]) == form
            else empty(form, like[i] if i < len(like) else None)
            for i, form in enumerate(wanted)
        ]
        self.skeleton = skeleton

    def value(self, live: Sequence[ArrayLeaf | None]) -> Any:
        """The values, with arrays copied into the ``live`` arrays if these exist."""
        copies = self._copies(live)
        return unflatten(self.skeleton, lambda: next(copies))

    def _copies(self, live: Sequence[ArrayLeaf | None]) -> Iterator[ArrayLeaf]:
        for source, target in zip(self.arrays, live, strict=True):
            if target is None or form_of(target) != form_of(source):
                target = empty(form_of(source), source)  # noqa: PLW2901
            copy_into(target, source)
            yield target

    def hash(self) -> bytes:
        """The hash of the values, without the revision.

        It finds faults, not forgeries: members of a job trust each other.
        """
        found = hashlib.blake2b(encode(self.skeleton), digest_size=HASH_BYTES)
        for array in self.arrays:
            found.update(xxh64(raw(array)).to_bytes(8, "little"))
        return found.digest()


def checked_length(skeleton: Any, nbytes: int) -> None:
    """Refuse a skeleton whose arrays do not have some number of bytes.

    Raises
    ------
    ValueError
        If they do not.
    TypeError, AttributeError
        If a dtype is unknown, or is that of objects.
    """
    needed = length_of(skeleton)
    if needed != nbytes:
        raise ValueError(f"it has {nbytes} bytes of arrays, but describes {needed}")


def length_of(skeleton: Any) -> int:
    """The number of bytes of the arrays of a skeleton.

    Raises
    ------
    TypeError, AttributeError
        If a dtype is unknown, or is that of objects.
    """
    return sum(map(_bytes_of, forms(skeleton)))


def _bytes_of(form: Form) -> int:
    elements = 1
    for length in form.shape:
        elements *= length
    if form.kind == "numpy":
        dtype = np.dtype(form.dtype)
        if dtype.hasobject:
            raise TypeError(f"an array of {dtype} holds no plain numbers")
        return elements * dtype.itemsize
    import torch

    return elements * int(getattr(torch, form.dtype).itemsize)
