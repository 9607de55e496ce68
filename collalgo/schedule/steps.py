"""The vocabulary of an algorithm: three verbs, steps, and groups of ranks.

An algorithm is a generator function of a :class:`Group`. For one rank, it yields
*steps*; a step is one transfer or a tuple of concurrent transfers, where None means no
transfer. The sends of a step carry the values from before the step, and all that one
step sends to one peer on one lane is one message. Receives of one step that reduce into
the same chunk must be equal from every peer; they are combined in the order of the
ranks, including the own value of the rank, so that the result of the same contributions
is the same to the last bit on every rank.

>>> def allgather(group):
...     for step in range(group.size - 1):
...         yield (
...             send(group.right, group.chunk(group.rank - step)),
...             recv(group.left, group.chunk(group.rank - step - 1)),
...         )
>>> list(allgather(Group.flat(rank=0, size=2)))[0][1]
recv from 1: chunk 1 of 2
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count, zip_longest
from typing import NamedTuple, TypeAlias

from collalgo.errors import ScheduleError
from collalgo.schedule.chunk import (
    Chunk,
    Chunks,
    as_chunks,
    divide,
    in_words,
    merge,
    spare,
)
from collalgo.schedule.group import Group

__all__ = [
    "LANES",
    "Chunk",
    "Chunks",
    "Group",
    "Kind",
    "ScheduleError",
    "ScheduleFunction",
    "Step",
    "Steps",
    "Transfer",
    "as_step",
    "between_two",
    "divide",
    "doublings",
    "merge",
    "pad",
    "pipeline",
    "recv",
    "recv_reduce",
    "reverse",
    "send",
    "spare",
    "together",
]


class Kind(enum.Enum):
    """The verb of a transfer."""

    SEND = "send"
    RECV = "recv"
    RECV_REDUCE = "recv_reduce"

    __hash__ = object.__hash__  # faster than that of enum, which is in Python


class Transfer(NamedTuple):
    """One verb of one rank: chunks to or from a peer (a rank of the whole world)."""

    kind: Kind
    peer: int
    chunks: Chunks
    lane: int = 0

    def __repr__(self) -> str:
        way = "to" if self.kind is Kind.SEND else "from"
        what = in_words(self.chunks) or "token"
        lane = f" on lane {self.lane}" if self.lane else ""
        return f"{self.kind.value} {way} {self.peer}: {what}{lane}"


#: The number of lanes of the engine between two ranks.
LANES = 8

#: The type of the items of a step.
_TRANSFERS = frozenset([Transfer])

#: Makes a transfer of its four fields, faster than its constructor.
_new = tuple.__new__
_SEND, _RECV, _RECV_REDUCE = Kind

Step: TypeAlias = tuple[Transfer, ...]
Steps: TypeAlias = Iterator[Transfer | tuple[Transfer | None, ...]]
ScheduleFunction: TypeAlias = Callable[..., Steps]

#: Marks the end of a schedule.
_OVER: Step = (_new(Transfer, (_SEND, -1, (), 0)),)


def send(peer: int, chunks: Chunks = ()) -> Transfer:
    """Send ``chunks`` as they were before this step; without chunks, a token.

    ``peer`` is a rank, as ``group.right`` or ``group.peer(position)``.
    """
    if type(chunks) is not tuple or (chunks and type(chunks[0]) is not Chunk):
        chunks = as_chunks(chunks)
    return _new(Transfer, (_SEND, peer, chunks, 0))


def recv(peer: int, chunks: Chunks = ()) -> Transfer:
    """Receive ``chunks`` over the present values; without chunks, a token.

    ``peer`` is a rank, as ``group.left`` or ``group.peer(position)``.
    """
    if type(chunks) is not tuple or (chunks and type(chunks[0]) is not Chunk):
        chunks = as_chunks(chunks)
    return _new(Transfer, (_RECV, peer, chunks, 0))


def recv_reduce(peer: int, chunks: Chunks) -> Transfer:
    """Receive ``chunks`` and combine them with the present values.

    ``peer`` is a rank, as ``group.left`` or ``group.peer(position)``.
    """
    if type(chunks) is not tuple or (chunks and type(chunks[0]) is not Chunk):
        chunks = as_chunks(chunks)
    return _new(Transfer, (_RECV_REDUCE, peer, chunks, 0))


def together(*schedules: Steps) -> Iterator[Step]:
    """Run schedules concurrently, step by step, each on a lane of its own.

    Messages of different lanes are independent, even between the same two ranks.
    """
    lanes = len(schedules)
    for steps in zip_longest(*schedules, fillvalue=()):
        yield tuple(
            [
                _new(Transfer, (kind, peer, chunks, own * lanes + lane))
                for lane, step in enumerate(steps)
                if step
                for kind, peer, chunks, own in as_step(step)
            ]
        )


def pipeline(*schedules: Steps) -> Iterator[Step]:
    """Run schedules as a pipeline: each begins one step after the one before.

    Schedules alternate between two lanes, so that the messages of consecutive schedules
    stay apart.
    """
    last = len(schedules) - 1
    running: list[tuple[int, Steps]] = []
    for number in count():
        if number <= last:
            running.append((number % 2, iter(schedules[number])))
        steps = [next(one, _OVER) for _, one in running]
        now = [
            pair for pair in zip(running, steps, strict=True) if pair[1] is not _OVER
        ]
        running = [one for one, _ in now]
        if not running and number >= last:
            return
        yield tuple(
            [
                _new(Transfer, (kind, peer, chunks, own * 2 + turn))
                for (turn, _), step in now
                if step
                for kind, peer, chunks, own in as_step(step)
            ]
        )


def between_two(steps: Sequence[Step]) -> Sequence[Step]:
    """Renumber the lanes to each peer of a rank, if there are more than LANES.

    Schedules that run together seldom all use the same two ranks. Both ranks number
    alike, as each send of one is a receive of the other.
    """
    if max((t.lane for step in steps for t in step), default=0) < LANES:
        return steps
    used: dict[int, set[int]] = defaultdict(set)
    for step in steps:
        for transfer in step:
            used[transfer.peer].add(transfer.lane)
    number = {
        (peer, lane): place if max(lanes) >= LANES else lane
        for peer, lanes in used.items()
        for place, lane in enumerate(sorted(lanes))
    }
    return [
        tuple([t._replace(lane=number[t.peer, t.lane]) for t in step]) for step in steps
    ]


def pad(rounds: int, steps: Steps | None = None) -> Steps:
    """Extend a schedule to ``rounds`` steps, with empty steps at its end."""
    done = list(steps or ())
    yield from done
    yield from [()] * (rounds - len(done))


def reverse(steps: Steps, *, combine: bool = True) -> Iterator[Step]:
    """Run a schedule from its end to its beginning, with sends as receives.

    A broadcast becomes a reduce, and an allgather a reduce-scatter; without
    ``combine``, a scatter becomes a gather.
    """
    taken = _RECV_REDUCE if combine else _RECV
    for step in reversed(list(steps)):
        if not step:
            yield ()
            continue
        yield tuple(
            [
                _new(Transfer, (taken if kind is _SEND else _SEND, peer, chunks, lane))
                for kind, peer, chunks, lane in as_step(step)
            ]
        )


def as_step(step: object) -> Step:
    """The normal form of a step: a tuple of transfers, without None."""
    if type(step) is tuple and _TRANSFERS.issuperset(map(type, step)):
        return step
    if isinstance(step, Transfer):
        return (step,)
    if isinstance(step, tuple):
        transfers = tuple([t for t in step if t is not None])
        if _TRANSFERS.issuperset(map(type, transfers)):
            return transfers
    raise ScheduleError(
        f"an algorithm yielded {step!r}; yield send(...), recv(...), "
        "recv_reduce(...) or a tuple of them, with None for no transfer"
    )


def doublings(size: int) -> list[int]:
    """The distances 1, 2, 4, ... below ``size``."""
    return [1 << i for i in range((size - 1).bit_length())]
