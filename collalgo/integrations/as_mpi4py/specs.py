"""What programs pass as a message: a buffer with a count, places and a datatype."""

from collections.abc import Sequence
from functools import cache
from operator import index
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.constants import PROC_NULL
from collalgo.integrations.as_mpi4py.datatypes import BYTE, TYPECODES, Datatype
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import (
    Bytes,
    Special,
    memory_of,
    origin,
)
from collalgo.integrations.as_mpi4py.parts import NOTHING, Blocks, Part, Whole


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
        return memory, _committed(Datatype.of(datatype))
    if code in TYPECODES:
        return memory, TYPECODES[code]
    if code[0] == ">":
        raise BufferError(
            f"elements {code!r} have the other byte order; convert them to the native "
            "one, or pass a datatype"
        )
    if (nbytes := code.removeprefix("V")).isdigit():
        return memory, _bytes_together(int(nbytes))
    raise KeyError(f"there is no datatype for elements {code!r}; pass one")


@cache
def _bytes_together(nbytes: int) -> Any:
    """The datatype of elements that NumPy does not have, which can only move."""
    byte: Any = BYTE
    return byte.Create_contiguous(nbytes).Commit()


def _committed(datatype: Any) -> Any:
    """A datatype that messages may have, as the null one of no elements."""
    if datatype and not datatype.state.is_committed:
        fail("ERR_TYPE", f"{datatype!r} is not committed; call its Commit() first")
    return datatype


def _entries(memory: Bytes, start: int, datatype: Any) -> int:
    """The number of elements of a datatype from a byte of a buffer on."""
    length = len(memory) - start if start >= 0 else 0  # of MPI.BOTTOM
    if not length:
        return 0
    if not datatype:
        raise ValueError("the count cannot be derived, as the datatype is null")
    extent = datatype.extent
    if extent <= 0 or length % extent:
        raise ValueError(
            f"the count cannot be derived: {length} bytes are not a multiple of the "
            f"extent {extent} of the datatype"
        )
    return int(length // extent)


def is_plain(buf: Any) -> bool:
    """Whether a message is a contiguous array of numbers, and nothing else."""
    return (
        type(buf) is np.ndarray
        and buf.dtype.isbuiltin == 1
        and buf.flags.c_contiguous
        and buf.dtype.char in TYPECODES
    )


def simple(msg: Any, *, writable: bool = False, blocks: int = 1, rank: int = 0) -> Part:
    """The part of a message for one rank, or of each of several equal blocks."""
    if rank == PROC_NULL:
        return NOTHING
    if blocks == 1 and is_plain(msg):
        if writable and not msg.flags.writeable:
            memory_of(msg, writable=True)  # which raises
        return Whole(msg, TYPECODES[msg.dtype.char])
    buf, count, place, datatype = _items(msg)
    if isinstance(count, list):
        count, place = count
    memory, found = _typed(buf, datatype, writable=writable)
    start = origin(buf) + _start(memory, index(place or 0), found)
    if count is None:
        number = _share(_entries(memory, start, found), max(blocks, 1))
    else:
        number = _count(buf, index(count))
    return Part(memory, found, number, start)


def _share(entries: int, blocks: int) -> int:
    """The elements of each of several equal blocks."""
    if entries % blocks:
        raise ValueError(
            f"the count cannot be derived: {entries} elements are not a multiple of "
            f"the {blocks} ranks"
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
        raise ValueError("a displacement needs elements with an extent")
    if place * datatype.extent > len(memory):
        raise ValueError(f"the displacement {place} is outside of the buffer")
    return int(place * datatype.extent)


def vector(msg: Any, blocks: int, *, writable: bool = False) -> Blocks:
    """The parts of a message for several ranks."""
    buf, counts, places, datatype = _items(msg)
    memory, found = _typed(buf, datatype, writable=writable)
    if counts is None:
        entries = _entries(memory, origin(buf), found)
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
            Part(memory, found, number, origin(buf) + start * extent)
            for number, start in zip(numbers, starts, strict=True)
        ]
    )


def vector_of_types(msg: Any, blocks: int, *, writable: bool = False) -> Blocks:
    """The parts of a message with a datatype for each rank, at places in bytes."""
    if not isinstance(msg, list | tuple) or not 2 <= len(msg) <= 4:
        raise ValueError("this message has 2 to 4 items: a buffer, ..., and datatypes")
    buf, *places, datatypes = msg
    counts, starts = (places[0] if len(places) == 1 else places) or (None, None)
    if counts is starts is None:
        counts, starts = [1] * blocks, [0] * blocks
    memory, first = memory_of(buf, writable=writable)[0], origin(buf)
    if len(datatypes) != blocks:
        raise ValueError(f"{len(datatypes)} datatypes are given for {blocks} ranks")
    items = zip(
        [_committed(Datatype.of(datatype)) for datatype in datatypes],
        _integers(counts, blocks),
        _integers(starts, blocks),
        strict=True,
    )
    return Blocks(
        [Part(memory, one, count, first + start) for one, count, start in items]
    )


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
