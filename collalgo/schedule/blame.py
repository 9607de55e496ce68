"""The first fault of a wrong schedule, and the line that yields it."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from collalgo.base.source_lines import line_of_generator
from collalgo.errors import ScheduleError
from collalgo.schedule.chunk import Chunk, Chunks, in_words, merge
from collalgo.schedule.steps import Kind, ScheduleFunction, Transfer
from collalgo.schedule.tracing import begin, name_of
from collalgo.schedule.transfers import Ints


class Transfers(Protocol):
    """The transfers of all ranks, with the step and the message of each."""

    transfers: list[Transfer]
    step: Ints
    rank_of: Ints
    message_of: Ints

    def where(self, step: int) -> tuple[int, int]:
        """The rank of a step, and its number there."""


class Channel(NamedTuple):
    """The queue of messages from one rank to another on one lane, in order."""

    sender: int
    receiver: int
    lane: int


#: The chunks of each message of a channel, by its step: those sent, those received.
Queues = tuple[dict[int, list[Chunk]], dict[int, list[Chunk]]]


def first_mismatch(table: Transfers) -> ScheduleError:
    """The error of the first step whose message has no matching message."""
    errors = [
        error
        for channel, (sent, taken) in _queues(table).items()
        if (error := _mismatch_of(table, channel, sent, taken))
    ]
    return min(errors, key=lambda error: (error.fault or (0, 0))[::-1])


def _queues(table: Transfers) -> dict[Channel, Queues]:
    """The messages of each channel."""
    found: dict[Channel, Queues] = defaultdict(lambda: ({}, {}))
    for i, transfer in enumerate(table.transfers):
        step = int(table.step[i])
        rank, _ = table.where(step)
        sends = transfer.kind is Kind.SEND
        ends = (rank, transfer.peer) if sends else (transfer.peer, rank)
        queue = found[Channel(*ends, transfer.lane)][0 if sends else 1]
        queue.setdefault(step, []).extend(transfer.chunks)
    return found


def _mismatch_of(
    table: Transfers,
    channel: Channel,
    sent: dict[int, list[Chunk]],
    taken: dict[int, list[Chunk]],
) -> ScheduleError | None:
    """The error of the first message of a channel that does not fit, if any."""
    for (out, leaving), (into, coming) in zip(
        sent.items(), taken.items(), strict=False
    ):
        if _plain(leaving) != _plain(coming):
            return _different(table, (out, leaving), (into, coming))
    return None if len(sent) == len(taken) else _unmatched(table, channel, sent, taken)


def _unmatched(
    table: Transfers,
    channel: Channel,
    sent: dict[int, list[Chunk]],
    taken: dict[int, list[Chunk]],
) -> ScheduleError:
    """The error of the first message of a channel that has no other end."""
    more, fewer = (sent, taken) if len(sent) > len(taken) else (taken, sent)
    step = list(more)[len(fewer)]
    rank, index = table.where(step)
    other = channel.receiver if more is sent else channel.sender
    verb, lack = ("sends", "takes") if more is sent else ("awaits", "sends")
    transfer = next(
        table.transfers[i]
        for i in np.flatnonzero(table.step == step)
        if table.transfers[i].peer == other
        and (table.transfers[i].kind is Kind.SEND) == (more is sent)
    )
    return ScheduleError(
        f"step {index} of rank {rank} {verb} data that rank {other} never {lack}: "
        f"{transfer!r}",
        rank=rank,
        fault=(rank, index),
    )


def _plain(chunks: list[Chunk]) -> Chunks:
    """The chunks in normal form, in any buffer."""
    return merge(chunk._replace(spare=0) for chunk in chunks)


def _different(
    table: Transfers,
    leaving: tuple[int, list[Chunk]],
    coming: tuple[int, list[Chunk]],
) -> ScheduleError:
    """The error of a message whose ends have different chunks."""
    sender, out = table.where(leaving[0])
    receiver, into = table.where(coming[0])
    return ScheduleError(
        f"step {into} of rank {receiver} expects {_words(coming[1])} from rank "
        f"{sender}, whose step {out} sends {_words(leaving[1])}",
        rank=receiver,
        fault=(receiver, into),
    )


def _words(chunks: list[Chunk]) -> str:
    return in_words(merge(chunks)) or "no chunks"


class Origin(NamedTuple):
    """The step in which a value was made, and what it did."""

    rank: int
    step: int
    transfer: Transfer


def origin(
    table: Transfers, events: Ints, rank: int, start: int, grid: int
) -> Origin | None:
    """The step that made the final value of a rank at ``start / grid`` of the buffer.

    A copied value is followed to its sender. None if it is the initial value of a rank.
    """
    entered, ended = _times(events)
    spare, now = 0, len(events)
    found: Origin | None = None
    while True:
        writes = _writes(table, rank, start, grid, spare)
        times = {i: ended[int(table.step[i])] for i in writes}
        before = [i for i, time in times.items() if time < now]
        if not before:
            return found
        last = max(before, key=times.__getitem__)
        _, index = table.where(table.step[last])
        transfer = table.transfers[last]
        found = Origin(rank, index, transfer)
        if transfer.kind is Kind.RECV_REDUCE:
            return found
        source = _source(table, last, start, grid)
        if source is None:
            return found
        rank, step, spare = source
        now = entered[step]


def overwritten(
    table: Transfers, events: Ints, missing: Iterable[int], start: int, grid: int
) -> Origin | None:
    """The step that overwrites the contribution of a rank before it was sent, if any.

    Parameters
    ----------
    table, events
        The schedule, and its order.
    missing
        The ranks whose contribution is missing at ``start / grid`` of the buffer.
    """
    entered, ended = _times(events)
    for rank in missing:
        writes = list(_writes(table, rank, start, grid, 0))
        first = min(writes, key=lambda i: ended[int(table.step[i])], default=None)
        if first is None or table.transfers[first].kind is not Kind.RECV:
            continue
        time = ended[int(table.step[first])]
        of_rank = np.flatnonzero(table.rank_of[table.step] == rank).tolist()
        sends = [i for i in of_rank if table.transfers[i].kind is Kind.SEND]
        if not any(
            entered[int(table.step[i])] < time
            and any(_covering(table.transfers[i].chunks, start, grid))
            for i in sends
        ):
            _, index = table.where(table.step[first])
            return Origin(rank, index, table.transfers[first])
    return None


def _times(events: Ints) -> tuple[dict[int, int], dict[int, int]]:
    """When each step begins, and when it ends, in the order of events."""
    entered: dict[int, int] = {}
    ended: dict[int, int] = {}
    for time, event in enumerate(events.tolist()):
        (ended if event % 2 else entered)[event // 2] = time
    return entered, ended


def _covering(chunks: Chunks, start: int, grid: int) -> Iterator[Chunk]:
    """The chunks that hold ``start / grid`` of the buffer."""
    for chunk in chunks:
        if chunk.start * grid <= start * chunk.parts < chunk.stop * grid:
            yield chunk


def _writes(
    table: Transfers, rank: int, start: int, grid: int, spare: int
) -> Iterator[int]:
    """The transfers of a rank that write a place of a buffer."""
    for i in np.flatnonzero(table.rank_of[table.step] == rank).tolist():
        transfer = table.transfers[i]
        if transfer.kind is not Kind.SEND:
            chunks = _covering(transfer.chunks, start, grid)
            if any(chunk.spare == spare for chunk in chunks):
                yield i


def _source(
    table: Transfers, taken: int, start: int, grid: int
) -> tuple[int, int, int] | None:
    """Rank, step and buffer from which the value of a receive was sent."""
    message = table.message_of[taken]
    for i in np.flatnonzero(table.message_of == message).tolist():
        if table.transfers[i].kind is Kind.SEND:
            for chunk in _covering(table.transfers[i].chunks, start, grid):
                step = int(table.step[i])
                return table.where(step)[0], step, chunk.spare
    return None


def located(
    error: ScheduleError,
    algorithm: ScheduleFunction,
    size: int,
    root: int,
    **parameters: object,
) -> ScheduleError:
    """An error of a proof, with the algorithm and the line of the wrong step."""
    text = f"{name_of(algorithm)}: {error}"
    if error.fault is not None:
        rank, index = error.fault
        steps = begin(algorithm, rank, size, root, **parameters)
        deque(islice(steps, index + 1), maxlen=0)
        if line := line_of_generator(steps):
            text += f" (step {index} of rank {rank} is yielded at {line})"
    return ScheduleError(
        text, rank=error.rank, collective=error.collective, fault=error.fault
    )
