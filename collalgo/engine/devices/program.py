"""Plans of all ranks as operations on a stream of each; the hosts never wait.

A device reads the memory of its peers: the receiver copies or reduces straight out of
the buffers of the sender. So a message needs two flags. The sender sets one when the
bytes are in place; the receiver sets the other when it has read them, and only then may
the sender overwrite them. Bytes that a rank sends and overwrites in the same step are
copied to its outbox before: otherwise two ranks that exchange data would deadlock.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from collalgo.engine.devices.operations import (
    OUTBOX,
    Clear,
    Combine,
    DeviceProgram,
    Flag,
    Operation,
    Place,
    Signal,
    Wait,
)
from collalgo.engine.devices.traffic import Message, Run, Traffic, located, overlap
from collalgo.engine.plan.rows import Action, Plan


class Post(NamedTuple):
    """A post: the places of its bytes, and its readers."""

    runs: tuple[Run, ...]
    readers: tuple[Message, ...]


def lower(plans: Sequence[Plan]) -> list[DeviceProgram]:
    """The programs of all ranks, from the plans of all.

    Parameters
    ----------
    plans
        The plans of all ranks, not sliced, for one host.
    """
    programs = _programs(plans, patient=True)
    if _ends([program.operations for program in programs]):
        return programs
    # A rank would wait for a reader that waits for it: send copies of everything.
    return _programs(plans, patient=False)


def _programs(plans: Sequence[Plan], *, patient: bool) -> list[DeviceProgram]:
    """The programs, in which ranks wait for their readers if they are ``patient``."""
    size = len(plans)
    senders = [_Sender(rank, plan, size, patient) for rank, plan in enumerate(plans)]
    sent = {flag: post for sender in senders for flag, post in sender.sent.items()}
    return [_Writer(sender, sent).program() for sender in senders]


class _Sender(Traffic):
    """The posts of a rank.

    Attributes
    ----------
    posts : list of list of Post
        For each step.
    sent : dict
        The post of each message, by its flag and its number.
    copies : dict
        The copies to the outbox before a post, by step and post.
    """

    def __init__(self, rank: int, plan: Plan, size: int, patient: bool):
        super().__init__(rank, plan, size)
        self.outbox_bytes = 0
        self.sent: dict[Message, Post] = {}
        self.posts: list[list[Post]] = []
        self.copies: dict[tuple[int, int], list[Combine]] = {}
        for step, (first, middle, _) in enumerate(plan.steps.tolist()):
            self.posts.append([])
            dangerous = self._written(step) if patient else self._written_from(step)
            for row in range(first, middle):
                runs = tuple(self.runs(row, reading=True))
                if any(overlap(run, write) for run in runs for write in dangerous):
                    runs = self._boxed(step, row - first, runs)
                post = Post(runs, tuple(self.messages[row]))
                self.posts[-1].append(post)
                self.sent.update(dict.fromkeys(post.readers, post))

    def _written(self, step: int) -> list[Run]:
        _, middle, last = self.plan.steps[step].tolist()
        return [
            run for row in range(middle, last) for run in self.runs(row, reading=False)
        ]

    def _written_from(self, step: int) -> list[Run]:
        """The writes of a step, of later ones, and after the last."""
        steps = range(step, len(self.plan.steps))
        found = [run for each in steps for run in self._written(each)]
        return [*found, *(run for run, _, _ in self.at_the_end())]

    def _boxed(self, step: int, number: int, runs: Sequence[Run]) -> tuple[Run, ...]:
        copies, boxed = [], []
        for run in runs:
            nbytes = run.stop - run.start
            target = Place(self.rank, OUTBOX, self.outbox_bytes)
            source = Place(self.rank, run.buffer, run.at)
            copies.append(Combine(target, (source,), nbytes))
            boxed.append(Run(run.start, run.stop, OUTBOX, self.outbox_bytes))
            self.outbox_bytes += nbytes
        self.copies[step, number] = copies
        return tuple(boxed)


class _Writer:
    """Writes the operations of a rank, from the posts of all ranks."""

    def __init__(self, own: _Sender, sent: dict[Message, Post]):
        self.own = own
        self.sent = sent
        self.direct: list[Post] = []
        self.operations: list[Operation] = []

    def program(self) -> DeviceProgram:
        plan = self.own.plan
        for step, (_, middle, last) in enumerate(plan.steps.tolist()):
            for number, post in enumerate(self.own.posts[step]):
                self.operations += self.own.copies.get((step, number), [])
                self.operations += [Signal(*reader) for reader in post.readers]
                self.direct.append(post)
            for row in range(middle, last):
                self._receive(row)
        for run, place, divide in self.own.at_the_end():
            self._combine(run, [place], divide=divide)
        for post in self.direct:  # wait for the last readers
            self._wait_for_readers(post)
        operations = _cleared(self.operations)
        return DeviceProgram(operations, plan.scratch_bytes, self.own.outbox_bytes)

    def _receive(self, row: int) -> None:
        """Wait for the messages of a row, read them, and announce it."""
        messages = self.own.messages[row]
        self.operations += [Wait(*message) for message in messages]
        arrivals = [(one[0].sender, self.sent[one].runs) for one in messages]
        own_place, offset = int(self.own.plan.messages[row, 4]), 0
        for piece in self.own.pieces(row):
            self._piece(piece, arrivals, offset, own_place)
            offset += piece[1]
        self.operations += [
            Signal(flag._replace(ready=False), number) for flag, number in messages
        ]

    def _piece(
        self,
        piece: tuple[int, ...],
        arrivals: Sequence[tuple[int, Sequence[Run]]],
        offset: int,
        own_place: int,
    ) -> None:
        """Copy or reduce a piece, at an offset in its messages, run by run."""
        start, nbytes, source, at, target, into, action = piece
        bounds = {0, nbytes}
        for _, runs in arrivals:
            ends = accumulate((run.stop - run.start for run in runs), initial=-offset)
            bounds.update(end for end in ends if 0 < end < nbytes)
        for begin, stop in pairwise(sorted(bounds)):
            sources = [
                Place(sender, *located(runs, offset + begin))
                for sender, runs in arrivals
            ]
            if action in (Action.REDUCE, Action.REDUCE_AND_DIVIDE):
                sources.insert(own_place, Place(self.own.rank, source, at + begin))
            run = Run(start + begin, start + stop, target, into + begin)
            self._combine(run, sources, divide=action == Action.REDUCE_AND_DIVIDE)

    def _combine(self, run: Run, sources: Sequence[Place], *, divide: bool) -> None:
        """Write a run, once the readers of its former bytes have read them."""
        kept = []
        for post in self.direct:
            if any(overlap(run, other) for other in post.runs):
                self._wait_for_readers(post)
            else:
                kept.append(post)
        self.direct = kept
        target = Place(self.own.rank, run.buffer, run.at)
        combine = Combine(target, tuple(sources), run.stop - run.start, divide)
        self.operations.append(combine)

    def _wait_for_readers(self, post: Post) -> None:
        self.operations += [
            Wait(flag._replace(ready=False), number) for flag, number in post.readers
        ]


def _cleared(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, by which all flags end as they have begun."""
    last = {o.flag: i for i, o in enumerate(operations) if isinstance(o, Wait)}
    found: list[Operation] = []
    done: list[Clear] = []  # behind all waits in a row, as these can be one
    for i, operation in enumerate(operations):
        if not isinstance(operation, Wait):
            found += done
            done = []
        elif last[operation.flag] == i:
            done.append(Clear(operation.flag))
        found.append(operation)
    return found + done


def _ends(programs: Sequence[Sequence[Operation]]) -> bool:
    """Whether all streams come to their ends."""
    flags: dict[Flag, int] = defaultdict(int)
    places = [0] * len(programs)
    waiting: dict[Flag, list[int]] = defaultdict(list)
    able = deque(range(len(programs)))
    while able:
        rank = able.popleft()
        operations = programs[rank]
        while places[rank] < len(operations):
            operation = operations[places[rank]]
            if isinstance(operation, Wait) and flags[operation.flag] < operation.number:
                waiting[operation.flag].append(rank)
                break
            if isinstance(operation, Signal):
                flags[operation.flag] = operation.number
                able.extend(waiting.pop(operation.flag, ()))
            places[rank] += 1
    return all(place == len(ops) for place, ops in zip(places, programs, strict=True))
