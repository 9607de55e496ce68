"""Which sums are sent on as they are made.

A rank that completes a sum often sends it next. Where those who get it have offered
their memory, it is written there as it is made, and need not be read for that.
"""

from collections.abc import Sequence

import numpy as np

from collalgo.engine.plan.layout import Marks
from collalgo.engine.plan.rows import OUTPUT, Action, Lowered, Message, Rows

#: No message: what no sum has been written to, and what is not sent on.
NONE = -1

SUMS = (Action.REDUCE, Action.REDUCE_AND_DIVIDE)


def relays(lowered: Sequence[Lowered]) -> Rows:
    """For each message that is summed up the first to send the sum, and nothing else.

    Messages are numbered step by step, first what leaves. For the others it is NONE.
    """
    latest = Marks(NONE)  # the number of the message whose sum is there
    messages: list[Message] = []
    relay: list[int] = []
    for posts, receives in lowered:
        for post in posts:
            source = _sum_of(post, latest, messages)
            if source != NONE and relay[source] == NONE:
                relay[source] = len(messages)
            messages.append(post)
            relay.append(NONE)
        for receive in receives:
            number = len(messages) if _is_sum(receive) else NONE
            for piece in receive.pieces:
                if piece.target == OUTPUT:
                    latest.mark(piece.span, number)
            messages.append(receive)
            relay.append(NONE)
    return np.array(relay, np.int64)


def _is_sum(receive: Message) -> bool:
    return len(receive.pieces) == 1 and receive.pieces[0].action in SUMS


def _sum_of(post: Message, latest: Marks, messages: Sequence[Message]) -> int:
    """The message whose sum is all that a message consists of."""
    piece, *more = post.pieces
    if more or piece.source != OUTPUT:
        return NONE
    number, *others = {number for _, number in latest.cut(piece.span)} or {NONE}
    if others or number == NONE or messages[number].pieces[0].span != piece.span:
        return NONE
    return number
