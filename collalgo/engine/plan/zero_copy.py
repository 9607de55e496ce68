"""Zero copy: messages whose memory other ranks may read or write directly.

If the arrays of a call lie in memory that all ranks have mapped, the readers of a
message can read the memory of its sender, or the sender can write to that of its
readers. Such memory must not change, or be read, until the message has arrived; and a
rank may be late by many steps.
"""

import enum
from collections.abc import Iterable, Sequence

import numpy as np

from collalgo.engine.plan.layout import Marks
from collalgo.engine.plan.reduce_forward import NONE, forwards
from collalgo.engine.plan.rows import (
    INPUT,
    OUTPUT,
    Action,
    Lowered,
    Message,
    Piece,
    Rows,
)

#: The uses of a byte: none, one, or several. A byte that is read only for one message
#: to one rank has the label ONE plus the channel.
NOTHING, MORE, ONE = range(3)

#: The last write of a byte that no step writes.
NEVER = -1


class DirectBuffers(enum.IntEnum):
    """Whether other ranks may access the memory of a message directly."""

    NO = 0
    ALWAYS = 1
    APART = 2  # if the result has memory of its own
    RETURNED = 3  # always; in place, its reader overwrites the bytes that it has read


def sharing(
    lowered: Sequence[Lowered],
    copies: Sequence[Piece],
    divisions: Sequence[Piece],
    shared: bool,
    alone: bool,
) -> tuple[Rows, Rows]:
    """The marks of :class:`Direct`, and the forwards of its sums.

    A rank ``alone`` on its host shares memory with none, so nothing is looked for.
    """
    if alone:
        count = sum(len(posts) + len(receives) for posts, receives in lowered)
        return np.full(count, int(DirectBuffers.NO)), np.full(count, NONE)
    return Direct(lowered, copies, divisions, shared).marks, forwards(lowered)


class Direct:
    """The messages of a rank that may be sent without a copy.

    Attributes
    ----------
    marks : ndarray
        A :class:`DirectBuffers` for each message, step by step, posts first.

    Parameters
    ----------
    lowered
        The posts and receives of each step.
    copies, divisions
        Pieces that no message brings, and pieces that are divided after the steps.
    shared
        Whether every result contains the input of every rank, as in an allreduce.
    """

    def __init__(
        self,
        lowered: Sequence[Lowered],
        copies: Sequence[Piece],
        divisions: Sequence[Piece],
        shared: bool,
    ):
        self._shared = shared
        self._given, self._got = Marks(NOTHING), Marks(NOTHING)
        self._written = Marks(NEVER)
        for number, (posts, receives) in enumerate(lowered):
            for pieces, readers, _ in posts:
                self._read(pieces, ONE + readers[0] if len(readers) == 1 else MORE)
            for pieces, _, _ in receives:
                self._write(pieces, number)
        self._write(copies, len(lowered))
        self._write(divisions, len(lowered))
        marks: list[int] = []
        for number, (posts, receives) in enumerate(lowered):
            marks += [self._of_post(post, number) for post in posts]
            marks += [self._of_receive(receive) for receive in receives]
        self.marks: Rows = np.array(marks, np.int64)

    def _read(self, pieces: Iterable[Piece], how: int) -> None:
        """Note reads of the input."""
        for span in (piece.span for piece in pieces if piece.source == INPUT):
            for part, before in list(self._given.cut(span)):
                self._given.mark(part, how if before == NOTHING else MORE)

    def _write(self, pieces: Iterable[Piece], step: int) -> None:
        """Note writes to the output, and the reads for them."""
        for piece in pieces:
            if not _is_brought(piece):
                self._read([piece], MORE)
            if piece.target != OUTPUT:
                continue
            self._written.mark(piece.span, step)
            for part, before in list(self._got.cut(piece.span)):
                once = before == NOTHING and _is_brought(piece)
                self._got.mark(part, ONE if once else MORE)

    def _of_post(self, post: Message, step: int) -> DirectBuffers:
        """Whether the readers of a post may read its memory."""
        marks = {self._of_piece(piece, step) for piece in post.pieces}
        for mark in (DirectBuffers.NO, DirectBuffers.APART, DirectBuffers.ALWAYS):
            if mark in marks:
                return mark
        return DirectBuffers.RETURNED

    def _of_piece(self, piece: Piece, step: int) -> DirectBuffers:
        last = max((last for _, last in self._written.cut(piece.span)), default=NEVER)
        if piece.source == OUTPUT:
            return DirectBuffers.ALWAYS if last < step else DirectBuffers.NO
        if piece.source != INPUT:
            return DirectBuffers.NO
        if last == NEVER:
            return DirectBuffers.ALWAYS
        return (
            DirectBuffers.RETURNED if self._comes_back(piece) else DirectBuffers.APART
        )

    def _comes_back(self, piece: Piece) -> bool:
        """Whether no rank can overwrite a piece before its reader has read it.

        Only one rank reads it, this rank reads it for nothing else, and only the result
        overwrites it. The result contains it, so it has been read by then.
        """
        return (
            self._shared
            and all(how >= ONE for _, how in self._given.cut(piece.span))
            and all(how != MORE for _, how in self._got.cut(piece.span))
        )

    def _of_receive(self, receive: Message) -> DirectBuffers:
        """Whether the sender may write to the target of a receive at any time."""
        (piece, *more), (channel, *others), _ = receive
        if more or others or piece.target != OUTPUT or not _is_brought(piece):
            return DirectBuffers.NO
        if any(how != ONE for _, how in self._got.cut(piece.span)):
            return DirectBuffers.NO
        given = {how for _, how in self._given.cut(piece.span)}
        if given <= {NOTHING}:
            return DirectBuffers.ALWAYS
        if self._shared and given <= {NOTHING, ONE + channel}:
            # The sender itself has read these bytes before it writes there.
            return DirectBuffers.RETURNED
        return DirectBuffers.APART


def _is_brought(piece: Piece) -> bool:
    """Whether a piece holds no contribution of this rank."""
    return piece.source == piece.target and piece.action in (Action.COPY, Action.STORE)
