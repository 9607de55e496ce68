"""Reduce-forward: sums that are sent on while they are reduced.

A rank that completes a sum often sends it in the next step. If the readers have offered
their memory, the reduction writes the sum there too, and it is not read again.
"""

from collections.abc import Sequence

import numpy as np

from collalgo.engine.plan.layout import Marks
from collalgo.engine.plan.rows import OUTPUT, Action, Lowered, Message, Rows

#: No message: there is no sum, or it is not forwarded.
NONE = -1

SUMS = (Action.REDUCE, Action.REDUCE_AND_DIVIDE)


def forwards(lowered: Sequence[Lowered]) -> Rows:
    """For each receive that reduces, the first post that sends just its sum.

    Messages are numbered step by step, posts first. NONE for all other messages.
    """
    latest = Marks(NONE)  # the number of the last message that was reduced there
    messages: list[Message] = []
    forwards_of: list[int] = []
    for posts, receives in lowered:
        for post in posts:
            source = _sum_of(post, latest, messages)
            if source != NONE and forwards_of[source] == NONE:
                forwards_of[source] = len(messages)
            messages.append(post)
            forwards_of.append(NONE)
        for receive in receives:
            number = len(messages) if _is_sum(receive) else NONE
            for piece in receive.pieces:
                if piece.target == OUTPUT:
                    latest.mark(piece.span, number)
            messages.append(receive)
            forwards_of.append(NONE)
    return np.array(forwards_of, np.int64)


def _is_sum(receive: Message) -> bool:
    return len(receive.pieces) == 1 and receive.pieces[0].action in SUMS


def _sum_of(post: Message, latest: Marks, messages: Sequence[Message]) -> int:
    """The message whose sum is the whole content of a post."""
    piece, *more = post.pieces
    if more or piece.source != OUTPUT:
        return NONE
    number, *others = {number for _, number in latest.cut(piece.span)} or {NONE}
    if others or number == NONE or messages[number].pieces[0].span != piece.span:
        return NONE
    return number
