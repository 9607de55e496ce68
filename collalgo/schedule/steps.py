"""The vocabulary of an algorithm: three verbs, steps, and groups of ranks.

An algorithm is a generator function of a :class:`Group`. Seen from one rank, it
yields *steps*; a step is what that rank does at once: one transfer or a tuple of
them, where None stands for none. All sends of a step carry the values from before the
step, whatever the step receives, and everything that one step sends to one peer on one
lane is one message. Receives of one step that reduce into the same chunk must be equal
from every peer; they are combined in the order of the ranks, the rank's own value
included, so that the result is the same to the last bit wherever the same
contributions meet.

>>> def allgather(group):
...     for step in range(group.size - 1):
...         yield (
...             send(group.right, group.chunk(group.rank - step)),
...             recv(group.left, group.chunk(group.rank - step - 1)),
...         )
>>> list(allgather(Group.flat(rank=0, size=2)))[0][1]
recv from 1: chunk 1/2
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count, zip_longest
from typing import NamedTuple, TypeAlias

from collalgo.errors import ScheduleError
from collalgo.schedule.chunk import Chunk, Chunks, divide, merge, spare
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
    "begin",
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
    "trace",
]


class Kind(enum.Enum):
    """What a transfer does with its chunks."""

    SEND = "send"
    RECV = "recv"
    RECV_REDUCE = "recv_reduce"

    __hash__ = object.__hash__  # that of enumerations is written in Python


class Transfer(NamedTuple):
    """One verb of one rank: chunks to or from a peer (a rank of the whole world)."""

    kind: Kind
    peer: int
    chunks: Chunks
    lane: int = 0

    def __repr__(self) -> str:
        way = "to" if self.kind is Kind.SEND else "from"
        what = ", ".join(map(str, self.chunks)) or "token"
        noun = "chunk " if len(self.chunks) == 1 else "chunks " if self.chunks else ""
        lane = f" on lane {self.lane}" if self.lane else ""
        return f"{self.kind.value} {way} {self.peer}: {noun}{what}{lane}"


#: How many lanes the engine has between two ranks.
LANES = 8

#: What a step is made of.
_TRANSFERS = frozenset([Transfer])

#: Makes a transfer of its four fields in less time than its constructor.
_new = tuple.__new__
_SEND, _RECV, _RECV_REDUCE = Kind

Step: TypeAlias = tuple[Transfer, ...]
Steps: TypeAlias = Iterator[Transfer | tuple[Transfer | None, ...]]
ScheduleFunction: TypeAlias = Callable[..., Steps]

#: What comes after the last step of a schedule.
_OVER: Step = (_new(Transfer, (_SEND, -1, (), 0)),)


def send(peer: int, chunks: Chunks = ()) -> Transfer:
    """Send ``chunks`` as they were before this step; without chunks, a token."""
    return _new(Transfer, (_SEND, peer, chunks, 0))


def recv(peer: int, chunks: Chunks = ()) -> Transfer:
    """Receive ``chunks`` in place of what is there; without chunks, a token."""
    return _new(Transfer, (_RECV, peer, chunks, 0))


def recv_reduce(peer: int, chunks: Chunks) -> Transfer:
    """Receive ``chunks`` and combine them with what is there."""
    return _new(Transfer, (_RECV_REDUCE, peer, chunks, 0))


def together(*schedules: Steps) -> Iterator[Step]:
    """Run schedules side by side, step by step, each on a lane of its own.

    Messages of different lanes never meet, even between the same two ranks.
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
    """Begin each schedule one step after the one before: a pipeline.

    Two lanes serve them by turns, so that what is near each other is not one message.
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
    """The steps of a rank with the lanes to each peer counted anew, if they are many.

    Schedules that run together seldom all join the same two ranks. Both count alike,
    as what one of them sends the other receives.
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
    """Make a schedule last so many steps, by doing nothing in those at its end."""
    done = list(steps or ())
    yield from done
    yield from [()] * (rounds - len(done))


def reverse(steps: Steps, *, combine: bool = True) -> Iterator[Step]:
    """Run a schedule from its end to its beginning, with sends as receives.

    What spread by it is collected: a broadcast becomes a reduce and an allgather a
    reduce-scatter, or, if not to ``combine``, a scatter becomes a gather.
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
    """Give the one form of a step: a tuple of transfers, without those left out."""
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
        "recv_reduce(...) or a tuple of them, with None for what is left out"
    )


def begin(
    algorithm: ScheduleFunction,
    rank: int,
    size: int,
    root: int = 0,
    **parameters: object,
) -> Steps:
    """What ``algorithm`` yields for one rank; the root is at position 0."""
    group = Group.flat(rank, size)
    if root:
        group = group.rotated(root)
    return algorithm(group, **parameters)


def trace(
    algorithm: ScheduleFunction,
    rank: int,
    size: int,
    root: int = 0,
    **parameters: object,
) -> list[Step]:
    """All steps that ``algorithm`` asks of one rank; the root is at position 0."""
    return list(map(as_step, begin(algorithm, rank, size, root, **parameters)))


def doublings(size: int) -> list[int]:
    """The distances 1, 2, 4, ... below ``size``."""
    return [1 << i for i in range((size - 1).bit_length())]
