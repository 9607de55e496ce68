"""Layouts: where the bytes of a datatype lie, and how they are packed and unpacked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of bytes of one element of a datatype, in the order of its type map.

    Attributes
    ----------
    offsets, lengths : array of int
        Of each block, in bytes.
    lb, ub : int
        The bounds of the element; the next one begins at ``ub - lb`` bytes.
    runs : tuple of (int, int)
        The basic elements that it is made of: how many, of how many bytes.
    alignment : int
        The largest alignment of a basic element in C.
    """

    offsets: Integers
    lengths: Integers
    lb: int
    ub: int
    runs: tuple[tuple[int, int], ...]
    alignment: int = 1

    @cached_property
    def size(self) -> int:
        """The number of bytes without gaps."""
        return int(self.lengths.sum())

    @cached_property
    def extent(self) -> int:
        """The number of bytes from the lower to the upper bound."""
        return self.ub - self.lb

    @cached_property
    def is_dense(self) -> bool:
        """Whether elements follow each other without gaps, from the first byte on."""
        if not len(self.offsets):
            return self.extent == 0
        return (
            len(self.offsets) == 1
            and self.offsets[0] == self.lb == 0
            and self.lengths[0] == self.extent
        )

    @cached_property
    def true_bounds(self) -> tuple[int, int]:
        """The first byte, and the end of the last byte."""
        if not len(self.offsets):
            return 0, 0
        return int(self.offsets.min()), int((self.offsets + self.lengths).max())

    # ---- made of others

    def placed(self, displacements: Any, counts: Any) -> "Layout":
        """Blocks of some elements of this layout each, at displacements in bytes."""
        places, numbers = np.broadcast_arrays(
            np.asarray(displacements, np.int64), np.asarray(counts, np.int64)
        )
        places, numbers = places[numbers > 0], numbers[numbers > 0]
        if not len(places):
            return Layout(places, places, 0, 0, (), self.alignment)
        steps = (numbers - 1) * self.extent
        offsets, lengths = self._blocks(places, numbers)
        return Layout(
            *_merged(offsets, lengths),
            int((places + np.minimum(steps, 0)).min()) + self.lb,
            int((places + np.maximum(steps, 0)).max()) + self.ub,
            self._repeated(int(numbers.sum())),
            self.alignment,
        )

    def _blocks(self, places: Integers, numbers: Integers) -> tuple[Integers, Integers]:
        if self.is_dense:
            return places, numbers * self.size
        first = np.repeat(np.cumsum(numbers) - numbers, numbers)
        within = (np.arange(len(first)) - first) * self.extent
        starts = np.repeat(places, numbers) + within
        offsets = (starts[:, None] + self.offsets).ravel()
        return offsets, np.tile(self.lengths, len(starts))

    def _repeated(self, number: int) -> tuple[tuple[int, int], ...]:
        if len(self.runs) == 1:
            [(count, nbytes)] = self.runs
            return ((count * number, nbytes),)
        return self.runs * number

    def resized(self, lb: int, ub: int) -> "Layout":
        """The same blocks with other bounds."""
        return Layout(self.offsets, self.lengths, lb, ub, self.runs, self.alignment)

    # ---- packing

    def pack(self, memory: Bytes, start: int, count: int) -> Bytes:
        """The bytes of some elements without gaps: a view where it has no gaps."""
        if self.is_dense:
            return self.part(memory, start, count)
        self.check(memory, start, count)
        packed = np.empty((count, self.size), np.uint8)
        for view, place in self._views(memory, start, count):
            columns = packed[:, place : place + view[0].size] if count else packed
            columns.reshape(view.shape)[...] = view
        return packed.reshape(-1)

    def part(self, memory: Bytes, start: int, count: int) -> Bytes:
        """The part of the memory with some elements that have no gaps."""
        end = start + count * self.size
        if start < 0 or end > len(memory):
            self.check(memory, start, count)
        return memory if end - start == len(memory) else memory[start:end]

    def unpack(self, memory: Bytes, start: int, data: Bytes) -> None:
        """Write packed bytes; the last element may be incomplete."""
        if not self.size:
            return
        count, rest = divmod(len(data), self.size)
        self.check(memory, start, count + bool(rest))
        packed = data[: count * self.size].reshape(count, self.size)
        for view, place in self._views(memory, start, count) if count else ():
            view[...] = packed[:, place : place + view[0].size].reshape(view.shape)
        place, begin = count * self.size, start + count * self.extent
        for offset, length in zip(self.offsets, self.lengths, strict=True):
            part = data[place : place + length]
            memory[begin + offset : begin + offset + len(part)] = part
            place += length

    def check(self, memory: Bytes, start: int, count: int) -> None:
        """Check that some elements lie in the memory."""
        if not count or not self.size:
            return
        low, high = self.true_bounds
        steps = (count - 1) * self.extent
        if start + low + min(steps, 0) < 0 or start + high + max(steps, 0) > len(
            memory
        ):
            fail(
                "ERR_BUFFER",
                f"{count} elements of {self.extent} bytes from byte {start} on exceed "
                f"the {len(memory)} bytes of the buffer",
            )

    def _views(
        self, memory: Bytes, start: int, count: int
    ) -> Iterator[tuple[Bytes, int]]:
        """Views of the blocks of all elements, and their place in a packed element."""
        if not self.size:
            return
        if self._stride is not None:
            first, shape = int(self.offsets[0]), (len(self.offsets), self.lengths[0])
            strides = (self.extent, self._stride, 1)
            yield _strided(memory, start + first, (count, *shape), strides), 0
            return
        place = 0
        for offset, length in zip(self.offsets, self.lengths, strict=True):
            shape = (count, int(length))
            yield _strided(memory, start + int(offset), shape, (self.extent, 1)), place
            place += int(length)

    @cached_property
    def _stride(self) -> int | None:
        """The distance of blocks of equal lengths at equal distances."""
        if (self.lengths != self.lengths[0]).any():
            return None
        steps = np.diff(self.offsets)
        if not len(steps):
            return 0
        return int(steps[0]) if (steps == steps[0]).all() else None

    def elements_in(self, nbytes: int) -> int:
        """The number of basic elements of a message of some bytes."""
        if not self.size:
            return 0
        whole, rest = divmod(nbytes, self.size)
        found = whole * sum(count for count, _ in self.runs)
        for count, each in self.runs:
            part = min(count, rest // each)
            found, rest = found + part, rest - part * each
            if part < count:
                break
        return found


def basic(nbytes: int, alignment: int | None = None) -> Layout:
    """The layout of a basic element."""
    return Layout(
        np.zeros(1, np.int64),
        np.array([nbytes], np.int64),
        0,
        nbytes,
        ((1, nbytes),),
        nbytes if alignment is None else alignment,
    )


def joined(parts: Sequence[Layout]) -> Layout:
    """The blocks of several layouts, one after the other."""
    filled = [part for part in parts if part.runs] or [basic(0).placed([], [])]
    offsets = np.concatenate([part.offsets for part in filled])
    lengths = np.concatenate([part.lengths for part in filled])
    return Layout(
        *_merged(offsets, lengths),
        min(part.lb for part in filled),
        max(part.ub for part in filled),
        sum((part.runs for part in filled), ()),
        max(part.alignment for part in filled),
    )


def _merged(offsets: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Blocks that adjoin each other as one; empty blocks left out."""
    offsets, lengths = offsets[lengths > 0], lengths[lengths > 0]
    if len(offsets) < 2:
        return offsets, lengths
    begins = np.append(True, offsets[1:] != offsets[:-1] + lengths[:-1])
    return offsets[begins], np.add.reduceat(lengths, np.flatnonzero(begins))


def _strided(
    memory: Bytes, start: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Bytes:
    return as_strided(memory[start:], shape, strides)
