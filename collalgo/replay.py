"""Play the schedules of all ranks together, in an order in which they could run.

The rules are the strictest that an engine could follow: a step ends only when every
peer of its transfers has come to the matching step, as if no message had a buffer.
What runs here cannot deadlock with bounded buffers, however small.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.schedule import Kind, Step, merge


class Channel(NamedTuple):
    """The way of messages from one rank to another on one lane, first in first out."""

    sender: int
    receiver: int
    lane: int


class Message(NamedTuple):
    """What one step sends to one peer, and the step that receives it."""

    channel: Channel
    sent_in: int
    received_in: int


class Played(NamedTuple):
    """One step of one rank: the messages that leave with it and come to it."""

    rank: int
    number: int
    step: Step
    sends: list[Message]
    receives: list[Message]


def match(schedules: Sequence[Sequence[Step]]) -> list[list[Played]]:
    """Pair every send with the receive that takes it.

    Raises
    ------
    ScheduleError
        For a transfer without partner, to oneself, or to a rank that does not exist.
    """
    sent: dict[Channel, list[int]] = defaultdict(list)
    received: dict[Channel, list[int]] = defaultdict(list)
    for rank, steps in enumerate(schedules):
        for index, step in enumerate(steps):
            for transfer in step:
                if not 0 <= transfer.peer < len(schedules) or transfer.peer == rank:
                    raise ScheduleError(
                        f"step {index} of rank {rank}: {transfer!r}: the peer must be "
                        f"another of the {len(schedules)} ranks",
                        rank=rank,
                    )
                side, channel = sent, Channel(rank, transfer.peer, transfer.lane)
                if transfer.kind is not Kind.SEND:
                    side = received
                    channel = Channel(transfer.peer, rank, transfer.lane)
                if not side[channel] or side[channel][-1] != index:
                    side[channel].append(index)
    played = [
        [Played(rank, index, step, [], []) for index, step in enumerate(steps)]
        for rank, steps in enumerate(schedules)
    ]
    for channel in sorted({*sent, *received}):
        _check_matched(channel, sent[channel], received[channel], schedules)
        for out, into in zip(sent[channel], received[channel], strict=True):
            message = Message(channel, out, into)
            played[channel.sender][out].sends.append(message)
            played[channel.receiver][into].receives.append(message)
            _check_same_chunks(message, schedules)
    return played


def _check_matched(
    channel: Channel,
    sent: list[int],
    received: list[int],
    schedules: Sequence[Sequence[Step]],
) -> None:
    if len(sent) > len(received):
        rank, index, verb, lack = channel.sender, sent[len(received)], "sends", "take"
        other = channel.receiver
    elif len(received) > len(sent):
        rank, index, verb, lack = (
            channel.receiver,
            received[len(sent)],
            "awaits",
            "send",
        )
        other = channel.sender
    else:
        return
    transfer = next(t for t in schedules[rank][index] if t.peer == other)
    raise ScheduleError(
        f"step {index} of rank {rank} {verb} what rank {other} never "
        f"{lack}s: {transfer!r}",
        rank=rank,
    )


def _check_same_chunks(message: Message, schedules: Sequence[Sequence[Step]]) -> None:
    (sender, receiver, lane), out, into = message
    leaving = merge(
        chunk
        for t in schedules[sender][out]
        if t.kind is Kind.SEND and (t.peer, t.lane) == (receiver, lane)
        for chunk in t.chunks
    )
    coming = merge(
        chunk
        for t in schedules[receiver][into]
        if t.kind is not Kind.SEND and (t.peer, t.lane) == (sender, lane)
        for chunk in t.chunks
    )
    if leaving != coming:
        raise ScheduleError(
            f"step {into} of rank {receiver} expects chunks "
            f"{', '.join(map(str, coming)) or 'none'} from rank {sender}, whose step "
            f"{out} sends chunks {', '.join(map(str, leaving)) or 'none'}",
            rank=receiver,
        )


def replay(schedules: Sequence[Sequence[Step]]) -> Iterator[tuple[bool, Played]]:
    """Yield ``(False, step)`` when a rank enters a step, ``(True, step)`` at its end.

    Raises
    ------
    ScheduleError
        If transfers do not match, or if ranks wait for each other in a circle.
    """
    played = match(schedules)
    at = [0] * len(schedules)
    for steps in played:
        if steps:
            yield False, steps[0]
    queue = deque(range(len(schedules)))
    while queue:
        rank = queue.popleft()
        if at[rank] == len(played[rank]) or _awaited(played[rank][at[rank]], at):
            continue
        yield True, played[rank][at[rank]]
        at[rank] += 1
        if at[rank] < len(played[rank]):
            step = played[rank][at[rank]]
            yield False, step
            queue.append(rank)
            queue.extend(m.channel.receiver for m in step.sends)
            queue.extend(m.channel.sender for m in step.receives)
    _check_finished(played, at)


def _awaited(step: Played, at: Sequence[int]) -> list[int]:
    """The ranks that have not come to the step that matches ``step``."""
    return [
        m.channel.receiver for m in step.sends if at[m.channel.receiver] < m.received_in
    ] + [m.channel.sender for m in step.receives if at[m.channel.sender] < m.sent_in]


def _check_finished(played: Sequence[Sequence[Played]], at: Sequence[int]) -> None:
    rank = next((r for r, steps in enumerate(played) if at[r] < len(steps)), None)
    if rank is None:
        return
    circle: list[int] = []
    while rank not in circle:
        circle.append(rank)
        rank = _awaited(played[rank][at[rank]], at)[0]
    circle = [*circle[circle.index(rank) :], rank]
    waits = "; ".join(
        f"step {at[a]} of rank {a} ({played[a][at[a]].step!r}) waits for rank {b}"
        for a, b in pairwise(circle)
    )
    raise ScheduleError(
        f"the ranks wait for each other in a circle: {waits}", rank=rank
    )
