"""Elements in buffers: one part of a buffer, or a part for each of several ranks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from collalgo.integrations.as_mpi4py.datatypes import BYTE
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes

#: Copies the received data to the user's buffer; None if it was received there.
Finish = Callable[[], None] | None


@dataclass
class Part:
    """Elements of a datatype in a buffer.

    Attributes
    ----------
    memory : array of bytes
        The buffer.
    datatype : Datatype
        Of each element.
    count : int
        The number of elements.
    start : int
        The first byte.
    """

    memory: Bytes
    datatype: Any
    count: int
    start: int = 0

    #: The array whose elements these are, if they are all of a contiguous one.
    array: ClassVar[Any] = None

    #: A copy with the padding of the last element, if the buffer ends before that.
    padded: ClassVar[Any] = None

    @property
    def nbytes(self) -> int:
        return int(self.datatype.state.layout.size) * self.count

    def source(self) -> NDArray[Any]:
        """A contiguous array of any dtype with the bytes without gaps."""
        return self.pack()

    def pack(self) -> Bytes:
        """The bytes without gaps: a view if it has no gaps."""
        packed: Bytes = self.datatype.state.layout.pack(
            self.memory, self.start, self.count
        )
        return packed

    def unpack(self, data: Bytes) -> None:
        """Write bytes, which may be fewer."""
        self.datatype.state.layout.unpack(self.memory, self.start, data)

    def target(self, nbytes: int | None = None) -> tuple[Bytes, Finish]:
        """An array for bytes to be received, and the completion."""
        layout = self.datatype.state.layout
        if layout.is_dense:
            whole = layout.part(self.memory, self.start, self.count)
            return whole if nbytes is None else whole[:nbytes], None
        packed = np.empty(self.nbytes if nbytes is None else nbytes, np.uint8)
        return packed, lambda: self.unpack(packed)

    def elements(self) -> Any:
        """The elements as an array of what reductions combine."""
        state = self.datatype.state
        dtype = state.dtype or np.dtype(f"V{max(state.layout.size, 1)}")
        if state.layout.lb or state.layout.extent != dtype.itemsize:
            fail(
                "ERR_TYPE",
                f"{self.datatype!r} has gaps, or does not begin at its first byte, and "
                "cannot be reduced",
            )
        state.layout.check(self.memory, self.start, self.count)
        nbytes = self.count * dtype.itemsize
        found = self.memory[self.start : self.start + nbytes]
        if len(found) < nbytes:
            found = np.pad(found, (0, nbytes - len(found)))
            self.padded = found  # type: ignore[misc]
        return found.view(dtype)

    @property
    def finish(self) -> Finish:
        """Copies results from :meth:`elements` to the buffer, if they are apart."""
        padded, own = self.padded, self.memory[self.start :]
        if padded is None:
            return None
        return lambda: np.copyto(own, padded[: len(own)])


class Whole(Part):
    """All elements of a contiguous array, whose bytes are viewed when they are needed.

    Parameters
    ----------
    array
        The array.
    datatype : Datatype
        Of each element.
    """

    def __init__(self, array: NDArray[Any], datatype: Any):
        self.array = array  # type: ignore[misc]
        self.datatype, self.count = datatype, array.size

    @cached_property
    def memory(self) -> Bytes:  # type: ignore[override]
        return self.array.reshape(-1).view(np.uint8)  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def source(self) -> NDArray[Any]:
        """The array."""
        return self.array  # type: ignore[no-any-return]


NOTHING = Part(np.empty(0, np.uint8), BYTE, 0)


@dataclass
class Blocks:
    """Elements for or from several ranks in one buffer.

    Attributes
    ----------
    parts : list of Part
        A part for each rank.
    """

    parts: list[Part]

    @property
    def sizes(self) -> list[int]:
        """The bytes of each part."""
        return [part.nbytes for part in self.parts]

    def pack(self) -> Bytes:
        """The bytes of all parts without gaps."""
        found = self._adjoining()
        if found is None:
            packed = [part.pack() for part in self.parts]
            found = np.concatenate([*packed, NOTHING.memory])
        return found

    def target(self) -> tuple[Bytes, Finish]:
        """An array for the bytes of all parts, and the completion."""
        found = self._adjoining()
        if found is not None:
            return found, None
        packed = np.empty(sum(self.sizes), np.uint8)
        return packed, lambda: self._unpack(packed)

    def _unpack(self, packed: Bytes) -> None:
        ends = np.cumsum(self.sizes)
        for part, end in zip(self.parts, ends, strict=True):
            part.unpack(packed[end - part.nbytes : end])

    def _adjoining(self) -> Bytes | None:
        """The part of the buffer, if the parts follow each other without gaps."""
        filled = [part for part in self.parts if part.nbytes]
        if not filled:
            return NOTHING.memory
        memory, first = filled[0].memory, filled[0].start
        place = first
        for part in filled:
            is_next = part.memory is memory and part.start == place
            if not is_next or not part.datatype.state.layout.is_dense:
                return None
            place += part.nbytes
        if first < 0 or place > len(memory):
            fail(
                "ERR_BUFFER", f"bytes {first} to {place} exceed the {len(memory)} given"
            )
        return memory[first:place]


def repeated(part: Part, blocks: int) -> Part:
    """The part for all of several equal blocks."""
    return Part(part.memory, part.datatype, part.count * blocks, part.start)


def equal_blocks(part: Part, number: int) -> list[Part]:
    """Equal blocks of a buffer; a part describes the first."""
    step = part.count * part.datatype.extent if part.count else 0
    return [
        Part(part.memory, part.datatype, part.count, part.start + place * step)
        for place in range(number)
    ]
