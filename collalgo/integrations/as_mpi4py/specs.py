"""What programs pass as a message: a buffer with a count, places and a datatype."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.constants import PROC_NULL
from collalgo.integrations.as_mpi4py.datatypes import BYTE, TYPECODES, Datatype
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes, Special, memory_of

#: Writes what was received to where it belongs; None if it is there already.
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

    @property
    def nbytes(self) -> int:
        return int(self.datatype.state.layout.size) * self.count

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
        """An array for bytes to be received, and what follows."""
        length = self.nbytes if nbytes is None else nbytes
        if self.datatype.state.layout.is_dense:
            self.datatype.state.layout.check(self.memory, self.start, self.count)
            return self.memory[self.start : self.start + length], None
        packed = np.empty(length, np.uint8)
        return packed, lambda: self.unpack(packed)

    def elements(self) -> Any:
        """The elements as an array of what reductions combine."""
        state = self.datatype.state
        dtype = state.dtype or np.dtype(f"V{max(state.layout.size, 1)}")
        if state.layout.extent != dtype.itemsize:
            fail("ERR_TYPE", f"{self.datatype!r} has gaps and cannot be reduced")
        state.layout.check(self.memory, self.start, self.count)
        end = self.start + self.count * dtype.itemsize
        return self.memory[self.start : end].view(dtype)


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
        """An array for the bytes of all parts, and what follows."""
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
        if not self.parts:
            return NOTHING.memory
        place = first = self.parts[0].start
        for part in self.parts:
            nbytes = part.nbytes
            if nbytes and (
                part.start != place or not part.datatype.state.layout.is_dense
            ):
                return None
            place += nbytes
        memory = self.parts[0].memory
        if place > len(memory):
            fail("ERR_BUFFER", f"{place} bytes are more than the {len(memory)} given")
        return memory[first:place]


def is_datatype(given: Any) -> bool:
    """Whether an item of a message is a datatype, or a code of one."""
    return isinstance(given, Datatype | str)


def _items(msg: Any) -> tuple[Any, Any, Any, Any]:
    """The buffer, the counts, the displacements and the datatype of a message."""
    if not isinstance(msg, list | tuple):
        if msg is None or isinstance(msg, Special):
            raise TypeError(f"a message is a buffer or a list, not {msg!r}")
        return msg, None, None, None
    if not 2 <= len(msg) <= 4:
        raise ValueError(f"a message has 2 to 4 items, not {len(msg)}")
    buf, *rest = msg
    datatype = rest.pop() if is_datatype(rest[-1]) or len(rest) > 1 else None
    counts, places = (*rest, None, None)[:2]
    if places is None and isinstance(counts, tuple) and len(counts) == 2:
        counts, places = counts
    return buf, counts, places, datatype


def is_integer(value: Any) -> bool:
    """Whether a value is a single integer."""
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0)


def _typed(buf: Any, datatype: Any, *, writable: bool) -> tuple[Bytes, Any]:
    """The bytes of a buffer and its datatype, by default that of its elements."""
    memory, code = memory_of(buf, writable=writable)
    if datatype is not None:
        return memory, Datatype.of(datatype)
    if code not in TYPECODES:
        raise KeyError(f"there is no datatype for elements {code!r}; pass one")
    return memory, TYPECODES[code]


def _entries(memory: Bytes, start: int, datatype: Any) -> int:
    """The number of elements of a datatype from a byte of a buffer on."""
    length = len(memory) - start
    if not length:
        return 0
    if not datatype:
        raise ValueError("the count is not known, as the datatype is null")
    extent = datatype.extent
    if extent <= 0 or length % extent:
        raise ValueError(
            f"the count is not known: {length} bytes are no multiple of the extent "
            f"{extent} of the datatype"
        )
    return int(length // extent)


def simple(msg: Any, *, writable: bool = False, blocks: int = 1, rank: int = 0) -> Part:
    """The part of a message for one rank, or of each of several equal blocks."""
    if rank == PROC_NULL:
        return NOTHING
    if type(msg) is np.ndarray and blocks == 1 and msg.dtype.char in TYPECODES:
        memory, code = memory_of(msg, writable=writable)
        return Part(memory, TYPECODES[code], msg.size)
    buf, count, place, datatype = _items(msg)
    if isinstance(count, list):
        count, place = count
    memory, found = _typed(buf, datatype, writable=writable)
    start = _start(memory, 0 if place is None else index(place), found)
    if count is None:
        number = _share(_entries(memory, start, found), max(blocks, 1))
    else:
        number = _count(buf, index(count))
    return Part(memory, found, number, start)


def _share(entries: int, blocks: int) -> int:
    """The elements of each of several equal blocks."""
    if entries % blocks:
        raise ValueError(
            f"the count is not known: {entries} elements are no multiple of the "
            f"{blocks} ranks"
        )
    return entries // blocks


def _count(buf: Any, number: int) -> int:
    """The count that a program gives."""
    if number < 0:
        raise ValueError(f"the count {number} is negative")
    if number and buf is None:
        raise ValueError(f"the count is {number}, but there is no buffer")
    return number


def _start(memory: Bytes, place: int, datatype: Any) -> int:
    """The first byte of a displacement in elements."""
    if place < 0:
        raise ValueError(f"the displacement {place} is negative")
    if not place:
        return 0
    if not datatype or datatype.extent <= 0:
        raise ValueError("there is no displacement without elements of an extent")
    if place * datatype.extent > len(memory):
        raise ValueError(f"the displacement {place} is outside of the buffer")
    return int(place * datatype.extent)


def repeated(part: Part, blocks: int) -> Part:
    """The part for all of several equal blocks."""
    return Part(part.memory, part.datatype, part.count * blocks, part.start)


def vector(msg: Any, blocks: int, *, writable: bool = False) -> Blocks:
    """The parts of a message for several ranks."""
    buf, counts, places, datatype = _items(msg)
    memory, found = _typed(buf, datatype, writable=writable)
    if counts is None:
        entries = _entries(memory, 0, found)
        counts = [(entries + blocks - 1 - i) // blocks for i in range(blocks)]
    numbers = _integers(counts, blocks)
    starts: Sequence[int]
    if places is None:
        starts = [*np.cumsum([0, *numbers])[:-1].tolist()]
    elif is_integer(places):
        starts = [index(places) * i for i in range(blocks)]
    else:
        starts = _integers(places, blocks)
    extent = found.extent if found else 0
    return Blocks(
        [
            Part(memory, found, number, start * extent)
            for number, start in zip(numbers, starts, strict=True)
        ]
    )


def vector_of_types(msg: Any, blocks: int, *, writable: bool = False) -> Blocks:
    """The parts of a message with a datatype for each rank, at places in bytes."""
    if not isinstance(msg, list | tuple) or not 2 <= len(msg) <= 4:
        raise ValueError("this message has 2 to 4 items: a buffer, ..., and datatypes")
    buf, *places, datatypes = msg
    given = places[0] if len(places) == 1 else places
    counts, starts = given or ([1] * blocks, [0] * blocks)
    memory, _ = memory_of(buf, writable=writable)
    if len(datatypes) != blocks:
        raise ValueError(f"{len(datatypes)} datatypes are given for {blocks} ranks")
    items = zip(
        [Datatype.of(datatype) for datatype in datatypes],
        _integers(counts, blocks),
        _integers(starts, blocks),
        strict=True,
    )
    return Blocks([Part(memory, one, count, start) for one, count, start in items])


def _integers(values: Any, blocks: int) -> Sequence[int]:
    """An integer for each rank."""
    if values is None:
        raise ValueError("the counts and the displacements are missing")
    if is_integer(values):
        return [index(values)] * blocks
    found = [index(value) for value in values]
    if len(found) != blocks:
        raise ValueError(f"{len(found)} values are given for {blocks} ranks")
    return found
