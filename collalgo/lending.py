"""What a rank may let others read where it is, of what it sends in a call.

That saves a copy where the arrays of the call lie in memory that all ranks have mapped.
What is lent must not change until it has been read, and a rank may be far behind.
"""

import enum
from collections.abc import Iterable, Sequence

import numpy as np

from collalgo.layout import Marks
from collalgo.rows import INPUT, OUTPUT, Action, Lowered, Message, Piece, Rows

#: How often a byte is read or written: once, to one rank or from it, or in another way.
NOT, ONCE, OTHERWISE = range(3)

#: The last step that writes a byte, if none does.
NEVER = -1


class Lendable(enum.IntEnum):
    """Whether a message may be read where it is."""

    NO = 0
    ALWAYS = 1
    APART = 2  # if the result has memory of its own


class Lending:
    """What may be lent of the messages of a rank.

    Attributes
    ----------
    marks : ndarray
        A :class:`Lendable` for each message, step by step, first what leaves.

    Parameters
    ----------
    lowered
        What leaves in each step, and what comes.
    copies, divisions
        What is done when the steps are over.
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
        self._given, self._got = Marks(NOT), Marks(NOT)
        self._written = Marks(NEVER)
        for number, (posts, receives) in enumerate(lowered):
            for pieces, readers, _ in posts:
                self._read(pieces, ONCE if len(readers) == 1 else OTHERWISE)
            for pieces, _, _ in receives:
                self._write(pieces, number)
        self._write(copies, len(lowered))
        self._write(divisions, len(lowered))
        marks: list[int] = []
        for number, (posts, receives) in enumerate(lowered):
            marks += [self._mark(post, number) for post in posts]
            marks += [Lendable.NO] * len(receives)
        self.marks: Rows = np.array(marks, np.int64)

    def _read(self, pieces: Iterable[Piece], how: int) -> None:
        """Note what is read of the input."""
        if not self._shared:
            return
        for span in (piece.span for piece in pieces if piece.source == INPUT):
            for part, before in list(self._given.cut(span)):
                self._given.mark(part, how if before == NOT else OTHERWISE)

    def _write(self, pieces: Iterable[Piece], step: int) -> None:
        """Note what is written to the output, and what is read for it."""
        copied = (Action.COPY, Action.STORE)
        for piece in pieces:
            if piece.action not in copied or piece.source != piece.target:
                self._read([piece], OTHERWISE)
            if piece.target != OUTPUT:
                continue
            self._written.mark(piece.span, step)
            if self._shared:
                for part, before in list(self._got.cut(piece.span)):
                    once = before == NOT and piece.action in copied
                    self._got.mark(part, ONCE if once else OTHERWISE)

    def _mark(self, post: Message, step: int) -> Lendable:
        """Whether a message that leaves in a step may be read where it is."""
        marks = {self._mark_of(piece, step) for piece in post.pieces}
        if Lendable.NO in marks:
            return Lendable.NO
        return Lendable.APART if Lendable.APART in marks else Lendable.ALWAYS

    def _mark_of(self, piece: Piece, step: int) -> Lendable:
        last = max((last for _, last in self._written.cut(piece.span)), default=NEVER)
        if piece.source == OUTPUT:
            return Lendable.ALWAYS if last < step else Lendable.NO
        if piece.source != INPUT:
            return Lendable.NO
        if last == NEVER or self._comes_back(piece):
            return Lendable.ALWAYS
        return Lendable.APART

    def _comes_back(self, piece: Piece) -> bool:
        """Whether nobody can write a piece before who gets it has read it.

        Only one rank gets it, this one reads it for nothing else, and what it is given
        instead is the result. That contains it, so it has been read.
        """
        return (
            self._shared
            and all(how == ONCE for _, how in self._given.cut(piece.span))
            and all(how != OTHERWISE for _, how in self._got.cut(piece.span))
        )
