"""Write schedules as GOAL, the text format of LogGOPSim.

Each rank has operations ``send``, ``recv`` and ``calc``, and dependencies between
them: ``l2 requires l1`` starts l2 after l1 has ended. Source: the scanner of txt2bin
in LogGOPSim (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language",
ICPP 2009).
"""

from collections.abc import Iterator, Sequence

from collalgo.base import output_files
from collalgo.schedule import ScheduleFunction, Step, trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.replay import Replay
from collalgo.schedule.transfers import Ints

GOAL = output_files.Format("a schedule in GOAL", endings=("goal",))

#: The most bytes of a message, so that sizes and times fit their fields in LogGOPSim.
LARGEST = (1 << 63) - 1


def goal_of(
    schedule: ScheduleFunction,
    collective: str,
    size: int,
    nbytes: int,
    root: int = 0,
    reduction: float = 0.0,
) -> str:
    r"""Write a schedule for ``size`` ranks as GOAL.

    A step of a rank begins when all operations of the step before have ended. The tag
    of a message is its number among those from its sender to its receiver. A message
    without chunks, and one of less than a byte, has one byte.

    Parameters
    ----------
    schedule
        The function of a group, such as :attr:`Algorithm.schedule`.
    collective
        The collective.
    size
        The number of ranks.
    nbytes
        The bytes of the buffer of a rank.
    root
        The rank of the root, of collectives with one.
    reduction
        Seconds for each byte that a rank reduces: the ``calc`` of a receive that
        reduces, in nanoseconds.

    Raises
    ------
    ScheduleError
        If the schedule deadlocks or a message has no partner.
    ValueError
        If a size is out of range.

    Examples
    --------
    >>> from collalgo.algorithms.catalogue import find
    >>> ring = find("allgather", "ring", 2).schedule
    >>> print(goal_of(ring, "allgather", 2, 100).partition("\n\n")[2])
    rank 0 {
    l1: send 50b to 1 tag 0
    l2: recv 50b from 1 tag 0
    }
    <BLANKLINE>
    rank 1 {
    l1: send 50b to 0 tag 0
    l2: recv 50b from 0 tag 0
    }
    <BLANKLINE>
    """
    whole = nbytes * COLLECTIVES[collective].buffers(size)
    if not 1 <= whole <= LARGEST or not 0 <= reduction < 1:
        raise ValueError(
            f"{nbytes} bytes and {reduction} s for each byte: the whole buffer must "
            f"have 1 to {LARGEST} bytes, and a byte take at least 0 and under 1 s"
        )
    schedules = [trace(schedule, rank, size, root) for rank in range(size)]
    return GoalWriter(schedules, whole, reduction).text()


class GoalWriter:
    """Writes the steps of all ranks as GOAL.

    Parameters
    ----------
    schedules
        The steps of all ranks.
    whole
        The bytes of all buffers that the chunks of the schedule divide.
    reduction
        Seconds for each byte that a rank reduces.
    """

    def __init__(
        self, schedules: Sequence[Sequence[Step]], whole: int, reduction: float
    ):
        self._replay = replay = Replay(schedules)
        self._bytes = [
            sum(c.stop * whole // c.parts - c.start * whole // c.parts for c in place)
            for place in replay.places
        ]
        self._reduction = reduction
        self._leaving = replay.by_step(replay.out)
        self._coming = replay.by_step(replay.into)
        self._tags = self._numbered()
        self._sums = [0] * len(replay.out)
        for transfer in (replay.kind == 2).nonzero()[0].tolist():
            self._sums[replay.message_of[transfer]] += self._bytes[
                replay.place[transfer]
            ]

    def _numbered(self) -> list[int]:
        """The number of each message among those from its sender to its receiver."""
        seen: dict[tuple[int, int], int] = {}
        found = []
        for out, into in zip(self._replay.out, self._replay.into, strict=True):
            pair = self._replay.where(out)[0], self._replay.where(into)[0]
            found.append(seen.setdefault(pair, 0))
            seen[pair] += 1
        return found

    def text(self) -> str:
        """The whole file."""
        lines = [f"// {GOAL.mark}", f"num_ranks {self._replay.size}"]
        for rank in range(self._replay.size):
            lines += ["", f"rank {rank} {{", *self._rank(rank), "}"]
        return "\n".join([*lines, ""])

    def _rank(self, rank: int) -> Iterator[str]:
        """The operations of a rank, and their dependencies."""
        operations = Operations()
        for step in range(*self._replay.first_step[rank : rank + 2].tolist()):
            for message in self._of_step(self._leaving, step):
                self._send(operations, message)
            for message in self._of_step(self._coming, step):
                self._take(operations, message)
            operations.end_step()
        return iter(operations.lines)

    @staticmethod
    def _of_step(messages: tuple[Ints, Ints], step: int) -> list[int]:
        bounds, order = messages
        return [int(m) for m in order[bounds[step] : bounds[step + 1]]]

    def _send(self, operations: "Operations", message: int) -> None:
        sender, receiver = self._ends(message)
        if sender != receiver:
            size = max(self._bytes[self._replay.sent[message]], 1)
            operations.add(f"send {size}b to {receiver} tag {self._tags[message]}")

    def _take(self, operations: "Operations", message: int) -> None:
        """The receive of a message, and the reduction after it."""
        sender, receiver = self._ends(message)
        label = None
        if sender != receiver:
            size = max(self._bytes[self._replay.taken[message]], 1)
            what = f"recv {size}b from {sender} tag {self._tags[message]}"
            label = operations.add(what)
        time = round(self._sums[message] * self._reduction * 1e9)
        if time:
            operations.add(f"calc {time}", after=label)

    def _ends(self, message: int) -> tuple[int, int]:
        """The sender and the receiver of a message."""
        out, into = self._replay.out[message], self._replay.into[message]
        return self._replay.where(out)[0], self._replay.where(into)[0]


class Operations:
    """The operations of a rank; those of a step wait for all of the step before."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._labels = 0
        self._before: list[str] = []
        self._first: list[str] = []
        self._last: list[str] = []

    def add(self, what: str, after: str | None = None) -> str:
        """Add an operation to the step, after another one of it; return its label."""
        label = self._labelled(what)
        if after is None:
            self._first.append(label)
        else:
            self.lines.append(f"{label} requires {after}")
            self._last.remove(after)
        self._last.append(label)
        return label

    def _labelled(self, what: str) -> str:
        self._labels += 1
        self.lines.append(f"l{self._labels}: {what}")
        return f"l{self._labels}"

    def end_step(self) -> None:
        """Let the operations of the step wait for those of the step before.

        Where several operations wait for several others, a ``calc 0`` joins them.
        """
        if not self._first:
            return
        before = self._before
        if len(before) > 1 and len(self._first) > 1:
            barrier = self._labelled("calc 0")
            self.lines += [f"{barrier} requires {label}" for label in before]
            before = [barrier]
        self.lines += [
            f"{label} requires {one}" for label in self._first for one in before
        ]
        self._before, self._first, self._last = self._last, [], []
