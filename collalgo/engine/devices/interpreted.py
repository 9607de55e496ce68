"""Programs as rows for a single kernel; ``interpret.cuh`` defines the columns."""

from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np

from collalgo._kernels.engine.devices.sources import ROOM
from collalgo.engine.devices.operations import (
    BUFFERS,
    Clear,
    Combine,
    Operation,
    Place,
    Signal,
    Wait,
)
from collalgo.engine.plan.rows import INPUT, OUTPUT, Rows


class Kind(IntEnum):
    """The operation of a row."""

    WAIT = 0
    SIGNAL = 1
    CLEAR = 2
    COMBINE = 3


class Interpreted(NamedTuple):
    """The input of the kernel.

    Attributes
    ----------
    rows : ndarray
        The operations, in order.
    places : ndarray
        The sources of the COMBINE rows.
    """

    rows: Rows
    places: Rows


def fits(size: int) -> bool:
    """Whether the kernel has room for the buffers of ``size`` ranks."""
    return size * len(BUFFERS) <= ROOM


def interpreted(operations: Sequence[Operation], size: int) -> Interpreted:
    """The rows for the operations of one of ``size`` ranks."""
    rows: list[tuple[int, ...]] = []
    places: list[tuple[int, int]] = []
    since: list[Combine] = []
    for operation, alike in zip(operations, _in_a_row(operations), strict=True):
        if not isinstance(operation, Combine):
            rows.append(_flag_row(operation, alike, size))
            continue
        meets = any(_meet(operation, other) for other in since)
        since = [operation] if meets else [*since, operation]
        first = len(places)
        places += [_located(place) for place in operation.sources]
        divisor = size if operation.divide else 0
        rows.append(
            (Kind.COMBINE, *_located(operation.target), operation.nbytes, first,
             len(operation.sources), divisor, meets)
        )  # fmt: skip
    return Interpreted(
        np.array(rows, np.int64).reshape(-1, 8),
        np.array(places, np.int64).reshape(-1, 2),
    )


def _flag_row(
    operation: Signal | Wait | Clear, alike: int, size: int
) -> tuple[int, ...]:
    """The row of an operation on a flag, with ``alike`` of its kind in a row."""
    place = _located(operation.flag.place(size))
    if isinstance(operation, Clear):
        return (Kind.CLEAR, *place, 0, 0, alike, 0, 0)
    kind = Kind.SIGNAL if isinstance(operation, Signal) else Kind.WAIT
    return (kind, *place, operation.number, 0, alike, 0, 0)


def _in_a_row(operations: Sequence[Operation]) -> list[int]:
    """The length of the run of operations of the same kind, from each on."""
    found: list[int] = []
    for _, alike in groupby(operations, type):
        found += range(len(list(alike)), 0, -1)
    return found


def _located(place: Place) -> tuple[int, int]:
    """The number of the buffer of a place, among those of all ranks, and the offset."""
    return place.rank * len(BUFFERS) + place.buffer, place.at


def _meet(a: Combine, b: Combine) -> bool:
    """Whether one writes bytes of this rank that the other reads or writes."""
    return any(
        _overlap(one.target, one.nbytes, place, other.nbytes)
        for one, other in ((a, b), (b, a))
        for place in (other.target, *other.sources)
    )


def _overlap(a: Place, a_bytes: int, b: Place, b_bytes: int) -> bool:
    """Whether two ranges may overlap: the output may lie anywhere in the input."""
    if a.rank != b.rank:
        return False
    if a.buffer != b.buffer:
        return {a.buffer, b.buffer} == {INPUT, OUTPUT}
    return a.at < b.at + b_bytes and b.at < a.at + a_bytes
