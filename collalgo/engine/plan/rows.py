"""The rows of a plan: the input of the engine, with the place of every byte.

They are written once for all lengths of the buffer, in parts of a grid; a length gives
the bytes of the parts.
"""

import enum
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.filling import Filling
from collalgo.engine.plan.layout import Grid, Layout, Span

INPUT, OUTPUT, SCRATCH = range(3)

#: The span of a message without bytes.
NO_PARTS = Span(0, 0)

Rows: TypeAlias = NDArray[np.int64]


class Action(enum.IntEnum):
    """The action of a rank on the bytes of a piece that it receives."""

    COPY = 0
    REDUCE = 1
    REDUCE_AND_DIVIDE = 2
    STORE = 3  # a copy whose target this rank does not read again in this call


class Piece(NamedTuple):
    """A span, the arrays to read its bytes from and write them to, and the action."""

    span: Span
    source: int
    target: int
    action: Action = Action.COPY


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tables:
    """The tables of rows of one rank; ``rows.pxd`` defines the columns.

    Attributes
    ----------
    copies : ndarray
        Pieces that no message brings: first those of the input, which wait for nothing.
    numbers : ndarray
        For each channel of a message, the number of earlier messages on it.
    direct : ndarray
        For each message, whether other ranks may access its memory directly; see
        :class:`collalgo.engine.plan.zero_copy.DirectBuffers`.
    forwards : ndarray
        For each message, the post that forwards its sum; see
        :mod:`collalgo.engine.plan.reduce_forward`.
    slices : int
        The number of parts of every piece on which the steps run, one after the other.
    """

    steps: Rows
    messages: Rows
    pieces: Rows
    channels: Rows
    numbers: Rows
    hazards: Rows
    copies: Rows
    divisions: Rows
    direct: Rows
    forwards: Rows
    slices: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Tables):
    """The rows of one rank, with the bytes of each piece.

    Attributes
    ----------
    scratch_bytes : int
        The scratch of the rank, which each slice reuses.
    """

    scratch_bytes: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlanTemplate(Tables):
    """The plans of one rank for buffers of all lengths.

    The rows of pieces have indices into ``borders`` and ``runs`` instead of bytes:
    first and last border, source array and run, target array and run, action. All other
    tables are those of the plans.

    Attributes
    ----------
    grid : Grid
        The parts of the buffer.
    borders : ndarray
        Where a piece or a run begins or ends, ascending: the spare buffer, the part in
        it, and the block of that part with its number in the block.
    runs : ndarray
        The parts of the buffer that lie in each array, one after the other: the array,
        and the first and last border.
    """

    grid: Grid
    borders: Rows
    runs: Rows

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(Tables)}

    def plan(self, layout: Layout) -> Plan:
        """The plan for a buffer of a certain length, without empty messages."""
        filling = Filling(self)
        filling.fill_layout(layout)
        return self.filled(filling)

    def filled(self, filling: Filling) -> Plan:
        """The plan of the length that a filling of this template has."""
        filled = {**self._tables, **filling.plan_tables()}
        return Plan(**filled, scratch_bytes=filling.scratch_bytes)


class Message(NamedTuple):
    """Pieces in ascending order, sent to all or received from all of the channels."""

    pieces: tuple[Piece, ...]
    channels: tuple[int, ...]
    own_place: int = 0

    @property
    def spans(self) -> list[Span]:
        return [piece.span for piece in self.pieces]


#: The posts and the receives of a step.
Lowered: TypeAlias = tuple[list[Message], list[Message]]
