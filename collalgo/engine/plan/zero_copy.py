"""What other ranks may read or write where it is, of what a rank sends and receives.

That saves copies where the arrays of the call lie in memory that all ranks have
mapped: the readers of a message read it where it is, or its sender writes it where it
belongs. What is lent so must not change, or be read, meanwhile; and a rank may be far
behind.
"""

import enum
from collections.abc import Iterable, Sequence

import numpy as np

from collalgo.engine.plan.layout import Marks
from collalgo.engine.plan.rows import (
    INPUT,
    OUTPUT,
    Action,
    Lowered,
    Message,
    Piece,
    Rows,
)

#: What happens to a byte: nothing, one thing, or more than that. What is read for one
#: message to one rank is labelled by its channel, from ONE on.
NOTHING, MORE, ONE = range(3)

#: The last step that writes a byte, if none does.
NEVER = -1


class DirectBuffers(enum.IntEnum):
    """Whether other ranks may read or write a message where it is."""

    NO = 0
    ALWAYS = 1
    APART = 2  # if the result has memory of its own
    RETURNED = 3  # always, and in place its reader writes over what it has read


class Direct:
    """What may be lent of the messages of a rank.

    Attributes
    ----------
    marks : ndarray
        A :class:`DirectBuffers` for each message, step by step, first what leaves.

    Parameters
    ----------
    lowered
        What leaves in each step, and what comes.
    copies, divisions
        What no message brings, and what is divided when the steps are over.
    shared
        Whether results contain what every rank has put in, as those of an allreduce.
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
        """Note what is read of the input."""
        for span in (piece.span for piece in pieces if piece.source == INPUT):
            for part, before in list(self._given.cut(span)):
                self._given.mark(part, how if before == NOTHING else MORE)

    def _write(self, pieces: Iterable[Piece], step: int) -> None:
        """Note what is written to the output, and what is read for it."""
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
        """Whether a message that leaves in a step may be read where it is."""
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
        """Whether nobody can write a piece before who gets it has read it.

        Only one rank gets it, this one reads it for nothing else, and what it is given
        instead is the result. That contains it, so it has been read.
        """
        return (
            self._shared
            and all(how >= ONE for _, how in self._given.cut(piece.span))
            and all(how != MORE for _, how in self._got.cut(piece.span))
        )

    def _of_receive(self, receive: Message) -> DirectBuffers:
        """Whether a message may be written where it belongs, all through the call."""
        (piece, *more), (channel, *others), _ = receive
        if more or others or piece.target != OUTPUT or not _is_brought(piece):
            return DirectBuffers.NO
        if any(how != ONE for _, how in self._got.cut(piece.span)):
            return DirectBuffers.NO
        given = {how for _, how in self._given.cut(piece.span)}
        if given <= {NOTHING}:
            return DirectBuffers.ALWAYS
        if self._shared and given <= {NOTHING, ONE + channel}:
            # The sender knows when it has read what it was given of this.
            return DirectBuffers.RETURNED
        return DirectBuffers.APART


def _is_brought(piece: Piece) -> bool:
    """Whether nothing of this rank goes into what is written."""
    return piece.source == piece.target and piece.action in (Action.COPY, Action.STORE)
