"""Plans as groups of messages, for a network between devices.

If devices cannot read each other's memory, a step is a group: all sends and receives of
a rank in it. A message that is only copied is received at its destination; all others
are received in an inbox, and combined once the group has ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from collalgo.engine.devices.operations import (
    INBOX,
    Combine,
    Exchange,
    GroupedProgram,
    Place,
    Transfer,
)
from collalgo.engine.devices.traffic import Message, Run, Traffic, located, overlap
from collalgo.engine.plan.rows import Action, Plan

#: The alignment of messages in the inbox, in bytes.
ALIGNMENT = 256


def group(plans: Sequence[Plan]) -> list[GroupedProgram] | None:
    """The programs of all ranks; None if the groups would deadlock.

    Parameters
    ----------
    plans
        The plans of all ranks, not sliced.
    """
    size = len(plans)
    ranks = [_Rank(rank, plan, size) for rank, plan in enumerate(plans)]
    sent = {key: runs for rank in ranks for key, runs in rank.sent.items()}
    received = {key: runs for rank in ranks for key, runs in rank.received.items()}
    if sent.keys() != received.keys():
        return None
    cuts = {key: _cuts(sent[key], received[key]) for key in sent}
    programs = [rank.program(cuts) for rank in ranks]
    return programs if _ends(programs) else None


class _Rank(Traffic):
    """A rank, with the places of the bytes of each message."""

    def __init__(self, rank: int, plan: Plan, size: int):
        super().__init__(rank, plan, size)
        self.sent: dict[Message, tuple[Run, ...]] = {}
        self.received: dict[Message, tuple[Run, ...]] = {}
        for first, middle, last in plan.steps.tolist():
            for row in range(first, last):
                sending = row < middle
                runs = tuple(self.runs(row, reading=sending))
                side = self.sent if sending else self.received
                side.update(dict.fromkeys(self.messages[row], runs))

    def program(self, cuts: Mapping[Message, Sequence[int]]) -> GroupedProgram:
        """The program of this rank, with its messages cut at the given bytes."""
        operations: list[Exchange | Combine] = []
        inbox = 0
        for first, middle, last in self.plan.steps.tolist():
            step = _Step(self, range(first, middle), range(middle, last), cuts)
            if step.sends or step.receives:
                operations.append(step.exchange)
            operations += step.combines
            inbox = max(inbox, step.inbox_bytes)
        for run, place, divide in self.at_the_end():
            result, nbytes = Place(self.rank, run.buffer, run.at), run.stop - run.start
            operations.append(Combine(result, (place,), nbytes, divide))
        return GroupedProgram(operations, self.plan.scratch_bytes, inbox)


class _Step:
    """A step of a rank: a group of messages, and the reductions after it.

    Attributes
    ----------
    sends, receives : list
        Each with its sort key, so that both ends have the same order.
    """

    def __init__(
        self,
        rank: _Rank,
        posts: Sequence[int],
        rows: Sequence[int],
        cuts: Mapping[Message, Sequence[int]],
    ):
        self._rank, self._posts, self._rows, self._cuts = rank, posts, rows, cuts
        self.sends: list[tuple[Message, Transfer]] = []
        self.receives: list[tuple[Message, Transfer]] = []
        self.combines: list[Combine] = []
        self.inbox_bytes = 0
        for row in posts:
            for message in rank.messages[row]:
                peer = message[0].receiver
                self.sends += self._parts(message, rank.sent[message], peer)
        for row in rows:
            self._receive(row)

    @property
    def exchange(self) -> Exchange:
        """The group."""
        return Exchange(_ordered(self.sends), _ordered(self.receives))

    def _receive(self, row: int) -> None:
        rank = self._rank
        messages = rank.messages[row]
        if self._in_place(row):
            for message in messages:
                runs = rank.received[message]
                self.receives += self._parts(message, runs, message[0].sender)
            return
        boxes = [self._box(message) for message in messages]
        own_place, offset = int(rank.plan.messages[row, 4]), 0
        for _, nbytes, source, at, target, into, action in rank.pieces(row):
            sources = [Place(rank.rank, INBOX, box + offset) for box in boxes]
            if action in (Action.REDUCE, Action.REDUCE_AND_DIVIDE):
                sources.insert(own_place, Place(rank.rank, source, at))
            place = Place(rank.rank, target, into)
            divide = action == Action.REDUCE_AND_DIVIDE
            self.combines.append(Combine(place, tuple(sources), nbytes, divide))
            offset += nbytes

    def _in_place(self, row: int) -> bool:
        """Whether a row only copies, to memory that no other row of the step uses."""
        rank = self._rank
        kept = all(p[-1] in (Action.COPY, Action.STORE) for p in rank.pieces(row))
        if not kept or len(rank.messages[row]) > 1:
            return False
        others = [run for post in self._posts for run in rank.runs(post, reading=True)]
        for other in self._rows:
            if other != row:
                others += [*rank.runs(other, reading=True)]
                others += [*rank.runs(other, reading=False)]
        mine = [*rank.runs(row, reading=False)]
        return not any(overlap(run, other) for run in mine for other in others)

    def _box(self, message: Message) -> int:
        """Receive a message in the inbox; return its offset."""
        begin = self.inbox_bytes
        nbytes = sum(run.stop - run.start for run in self._rank.received[message])
        run = Run(0, nbytes, INBOX, begin)
        self.receives += self._parts(message, (run,), message[0].sender)
        self.inbox_bytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return begin

    def _parts(
        self, message: Message, runs: Sequence[Run], peer: int
    ) -> Iterator[tuple[Message, Transfer]]:
        """The parts of a message, as both ends have cut it."""
        for begin, stop in pairwise(self._cuts[message]):
            place = Place(self._rank.rank, *located(runs, begin))
            yield message, Transfer(place, stop - begin, peer)


def _cuts(sent: Sequence[Run], received: Sequence[Run]) -> list[int]:
    """The cuts of a message, such that each part is contiguous at both ends."""
    ends = (
        accumulate((run.stop - run.start for run in runs), initial=0)
        for runs in (sent, received)
    )
    return sorted({end for side in ends for end in side})


def _ordered(transfers: Sequence[tuple[Message, Transfer]]) -> tuple[Transfer, ...]:
    """Sort by lanes and numbers, as at the other end; parts keep their order."""
    found = sorted(transfers, key=lambda each: (each[0][0].lane, each[0][1]))
    return tuple(transfer for _, transfer in found)


def _ends(programs: Sequence[GroupedProgram]) -> bool:
    """Whether all groups end if no message leaves before its receive is posted.

    Each end takes the messages between two ranks one after the other.
    """
    replay = _GroupReplay(programs)
    return replay.runs() and replay.has_ended


class _GroupReplay:
    """Replays the groups of all ranks without buffers, to find deadlocks."""

    def __init__(self, programs: Sequence[GroupedProgram]):
        self._groups = [
            [o for o in program.operations if isinstance(o, Exchange)]
            for program in programs
        ]
        #: The sizes of the unmatched messages of the current group of each rank, by
        #: peer and direction.
        self._left: list[dict[tuple[int, bool], list[int]]] = [{} for _ in programs]
        self._current = [-1] * len(programs)

    @property
    def has_ended(self) -> bool:
        pairs = zip(self._current, self._groups, strict=True)
        return all(current == len(own) for current, own in pairs)

    def runs(self) -> bool:
        """Run until blocked; False if the sizes of a message differ."""
        able = list(range(len(self._groups)))
        for rank in able:
            self._begin_group(rank)
        while able:
            rank = able.pop()
            for peer, sending in list(self._left[rank]):
                ended = self._match(rank, peer, sending)
                if ended is None:
                    return False
                able += ended
        return True

    def _begin_group(self, rank: int) -> None:
        """Begin the next group of a rank that has messages, if there is one."""
        own = self._groups[rank]
        while self._current[rank] < len(own) and not self._left[rank]:
            self._current[rank] += 1
            if self._current[rank] < len(own):
                exchange = own[self._current[rank]]
                for sending, side in (
                    (True, exchange.sends),
                    (False, exchange.receives),
                ):
                    for _, nbytes, peer in side:
                        self._left[rank].setdefault((peer, sending), []).append(nbytes)

    def _match(self, rank: int, peer: int, sending: bool) -> list[int] | None:
        """Match messages of two ranks; return the ranks whose groups thereby end.

        None if the sizes of two messages differ.
        """
        mine = self._left[rank].get((peer, sending))
        theirs = self._left[peer].get((rank, not sending))
        if mine is None or theirs is None:
            return []
        common = min(len(mine), len(theirs))
        if mine[:common] != theirs[:common]:
            return None
        ended = []
        for end, other, way in ((rank, peer, sending), (peer, rank, not sending)):
            rest = self._left[end].pop((other, way))[common:]
            if rest:
                self._left[end][other, way] = rest
            if not self._left[end]:
                self._begin_group(end)
                ended.append(end)
        return ended
