"""Translate the operations of a file to the steps of every rank."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell, Cells
from collalgo.integrations.msccl.events import Event, Events, Touch
from collalgo.integrations.msccl.instruction_events import InstructionEvents
from collalgo.integrations.msccl.operations import Operations
from collalgo.integrations.msccl.order import Cycle
from collalgo.integrations.msccl.program import Connection, Program, messages
from collalgo.schedule import Kind


class Move(NamedTuple):
    """A transfer of parts (homes) of the buffer or of a spare buffer."""

    kind: Kind
    peer: int
    lane: int
    spare: int
    homes: tuple[int, ...]


class Location(NamedTuple):
    """The location of a value: its home in the buffer (0) or in a spare buffer."""

    home: int
    spare: int


#: Source, target, and whether the transfer adds to the target.
Ends = list[tuple[Location, Location, bool]]

#: The moves of a rank, by step.
RankSteps = list[list[Move]]


class Memory:
    """The memory of one rank: the location of each live cell.

    Parameters
    ----------
    name
        The name of the algorithm.
    given, wanted
        The cells with initial data, and those with the result.
    touches
        The accesses to each cell, in order.
    """

    def __init__(
        self,
        name: str,
        given: dict[Cell, int],
        wanted: dict[Cell, int],
        touches: dict[Cell, list[Touch]],
    ):
        self.name, self.wanted = name, wanted
        self.where = {cell: Location(home, 0) for cell, home in given.items()}
        self.used = Counter(self.where.values())
        self._left = {cell: list(reversed(uses)) for cell, uses in touches.items()}
        for cell in given:
            self._forget_unless_used(cell)
        self.begin()

    def begin(self) -> None:
        """Begin a step, whose transfers are concurrent."""
        self._before = frozenset(self.where.values())

    def at(self, cell: Cell) -> Location:
        """The location of a cell that is read."""
        if cell not in self.where:
            raise ScheduleError(
                f"{self.name}: chunk {cell.number} of buffer {cell.buffer!r} is read "
                "before anything is written to it"
            )
        return self.where[cell]

    def over(self, cell: Cell, event: int) -> None:
        """Record that an event has read a cell without writing it."""
        uses = self._left[cell]
        uses.remove(next(use for use in uses if use.event == event and not use.writes))
        self._forget_unless_used(cell)

    def _forget_unless_used(self, cell: Cell) -> None:
        """Free the location of a value without further reads."""
        uses = self._left.get(cell)
        if not uses[-1].reads if uses else cell not in self.wanted:
            self.forget(cell)

    def forget(self, cell: Cell) -> None:
        """Free the location of a cell."""
        where = self.where.pop(cell, None)
        if where is not None:
            self.used[where] -= 1

    def put(self, cell: Cell, where: Location, event: int) -> None:
        """Record that an event puts a cell at a location."""
        self.forget(cell)
        self.where[cell] = where
        self.used[where] += 1
        uses = self._left[cell]
        uses.remove(next(use for use in uses if use.event == event and use.writes))
        self._forget_unless_used(cell)

    def free(self, homes: Iterable[int], *, untouched: bool = False) -> int:
        """The first buffer in which all these homes are free.

        With ``untouched`` they must also have been free when the step began.
        """
        before = self._before if untouched else frozenset()
        places = [Location(home, 0) for home in homes]
        for spare in count():
            there = [place._replace(spare=spare) for place in places]
            if not any(self.used[place] or place in before for place in there):
                break
        return spare


class Translator:
    """Translates the events of a program to the steps of all ranks.

    Parameters
    ----------
    name
        The name of the program.
    cells
        The cells of its collective.
    find_events
        Finds the events of the program; Operations changes them.
    """

    def __init__(self, name: str, cells: Cells, find_events: Callable[[], Events]):
        self.name, self.cells = name, cells
        try:
            self.operations = operations = Operations(cells, find_events())
        except Cycle:  # a part of a message may be needed before all of it can be added
            self.operations = operations = Operations(cells, find_events(), False)
        self.memories = [
            Memory(name, cells.given(rank), cells.wanted(rank), touches)
            for rank, touches in enumerate(operations.touches)
        ]
        channels = [e.message.channel for e in operations.events if e.message]
        self.channels = 1 + max(channels, default=0)

    @classmethod
    def of(cls, program: Program) -> "Translator":
        """The translator of an MSCCL file."""
        found = messages(program)
        events = partial(InstructionEvents, program, found)
        return cls(program.name, program.cells, events)

    def steps(self) -> list[RankSteps]:
        """The steps of all ranks; each rank has the same number of steps."""
        at: dict[int, list[int]] = defaultdict(list)
        for number, level in enumerate(self.operations.levels):
            if self.operations.events[number].targets:
                at[level].append(number)
        found: list[RankSteps] = [[] for _ in self.memories]
        for level in sorted(at):
            for step in self._level(at[level]):
                for rank, moves in enumerate(step):
                    found[rank].append(moves)
        for rank, moves in enumerate(self._finish()):
            found[rank].append(moves)
        full = [any(steps[i] for steps in found) for i in range(len(found[0]))]
        return [
            [moves for moves, kept in zip(steps, full, strict=True) if kept]
            for steps in found
        ]

    def _level(self, numbers: list[int]) -> list[list[list[Move]]]:
        """The two steps of a level: first the copies that it needs, then its events."""
        events = [(number, self.operations.events[number]) for number in numbers]
        for memory in self.memories:
            memory.begin()
        read = [self._read(number, event) for number, event in events]
        apart: list[Ends] = [[] for _ in self.memories]
        for (number, event), sources in zip(events, read, strict=True):
            if event.kind == "copy":
                memory = self.memories[event.gpu]
                for cell, where in zip(event.targets, sources, strict=True):
                    memory.put(cell, where, number)
                for cell in event.sources:
                    memory.over(cell, number)
        ends: dict[Connection, Ends] = defaultdict(list)
        for (number, event), sources in zip(events, read, strict=True):
            if event.kind != "copy":
                targets = self._write(number, event, sources, apart[event.gpu])
                ends[event.connection] += zip(sources, targets, event.adds, strict=True)
        return [self._within(apart), self._moves(ends)]

    def _read(self, number: int, event: Event) -> list[Location]:
        """The locations that an event reads."""
        gpu = event.gpu if event.message is None else event.message.sender
        memory = self.memories[gpu]
        found = [memory.at(cell) for cell in event.sources]
        if event.kind != "copy":
            for cell in event.sources:
                memory.over(cell, number)
        return found

    def _write(
        self, number: int, event: Event, sources: list[Location], apart: Ends
    ) -> list[Location]:
        """The locations that an event writes."""
        memory = self.memories[event.gpu]
        fresh = [
            where.home
            for where, adds in zip(sources, event.adds, strict=True)
            if not adds
        ]
        for cell, adds in zip(event.targets, event.adds, strict=True):
            if not adds:
                memory.forget(cell)
        spare = memory.free(fresh)
        found = []
        for source, cell, adds in zip(sources, event.targets, event.adds, strict=True):
            where = Location(source.home, spare)
            if adds:
                where = self._own(memory, event, source, cell, apart)
            elif memory.used[where]:  # by another part of this message
                where = Location(source.home, memory.free([source.home]))
            memory.put(cell, where, number)
            found.append(where)
        return found

    def _own(
        self, memory: Memory, event: Event, source: Location, cell: Cell, apart: Ends
    ) -> Location:
        """The location of a cell to add to; a shared one is first copied apart."""
        where = memory.at(cell)
        if where.home != source.home:
            raise ScheduleError(
                f"{self.name}: GPU {event.gpu} adds part {source.home} of "
                f"{self.cells.parts} of the buffer to part {where.home}; only "
                "equal parts can be added",
                rank=event.gpu,
            )
        if memory.used[where] > 1:
            alone = Location(where.home, memory.free([where.home], untouched=True))
            apart.append((where, alone, False))
            return alone
        return where

    def _within(self, ends: list[Ends]) -> list[list[Move]]:
        """The moves of copies from buffer to buffer on each rank."""
        return self._moves(
            {(rank, rank, 0): of_rank for rank, of_rank in enumerate(ends)}
        )

    def _moves(self, ends: dict[Connection, Ends]) -> list[list[Move]]:
        """The moves of all ranks, from the transfers of each connection."""
        moves: list[list[Move]] = [[] for _ in self.memories]
        for connection, of_connection in ends.items():
            channels = self.channels if connection[0] != connection[1] else 1
            for rank, move in moves_of(connection, of_connection, channels):
                moves[rank].append(move)
        return moves

    def _finish(self) -> list[list[Move]]:
        """The final copies of results from spare buffers into the buffer."""
        ends: list[Ends] = [[] for _ in self.memories]
        for rank, memory in enumerate(self.memories):
            for cell, home in memory.wanted.items():
                where = memory.where.get(cell)
                if where is None or where.home != home:
                    what = "nothing" if where is None else f"part {where.home}"
                    raise ScheduleError(
                        f"{self.name}: GPU {rank} ends with {what} in chunk "
                        f"{cell.number} of buffer {cell.buffer!r}, which is to hold "
                        f"part {home} of {self.cells.parts} of the buffer",
                        rank=rank,
                    )
                if where.spare:
                    ends[rank].append((where, Location(home, 0), False))
        return self._within(ends)


def moves_of(
    connection: Connection, ends: Ends, channels: int
) -> Iterator[tuple[int, Move]]:
    """The moves of one connection, with their ranks; one lane per pair of buffers."""
    sender, receiver, channel = connection
    parts: dict[tuple[int, int], list[tuple[int, bool]]] = defaultdict(list)
    for source, target, adds in ends:
        parts[source.spare, target.spare].append((source.home, adds))
    for number, ((out, into), homes) in enumerate(sorted(parts.items())):
        lane = channel + number * channels
        sent = tuple(home for home, _ in homes)
        yield sender, Move(Kind.SEND, receiver, lane, out, sent)
        for kind, chosen in ((Kind.RECV, False), (Kind.RECV_REDUCE, True)):
            taken = tuple(home for home, adds in homes if adds is chosen)
            if taken:
                yield receiver, Move(kind, sender, lane, into, taken)
