"""The operations of a file on the cells of each GPU, and the earliest step of each.

A receive into scratch followed by a single add becomes a receive that reduces.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.order import Node, Order, add_edge, cells_from, levels
from collalgo.integrations.msccl.program import Connection, Message, Program


class Touch(NamedTuple):
    """One access of an event to a cell; ``writes`` if it changes the value.

    An access that ``reads`` and writes adds to the value.
    """

    event: int
    node: int
    reads: bool
    writes: bool


@dataclass
class Event:
    """An atomic operation: a message, or a copy or add inside a GPU.

    Attributes
    ----------
    message : Message or None
        The message, unless the event is local.
    gpu : int
        The GPU that it writes on.
    kind : str
        ``message``, ``copy`` or ``add``.
    sources, targets : list of Cell
        The cells that it reads and those that it writes, in the same order.
    adds : list of bool
        For each target, whether the event adds to it.
    """

    message: Message | None
    gpu: int
    kind: str
    sources: list[Cell] = field(default_factory=list)
    targets: list[Cell] = field(default_factory=list)
    adds: list[bool] = field(default_factory=list)

    @property
    def connection(self) -> Connection:
        """The sender, the receiver and the channel."""
        return (self.gpu, self.gpu, 0) if self.message is None else self.message[:3]


class Operations:
    """The events of a program, and the accesses to each cell in order.

    Attributes
    ----------
    events : list of Event
        First the messages, in the given order.
    touches : list of dict
        For each GPU, the accesses to each cell in order.
    levels : list of int
        The step of each event.

    Raises
    ------
    Cycle
        If events wait for each other in a cycle.
    """

    def __init__(
        self,
        program: Program,
        messages: list[Message],
        order: Order,
        adds_at_once: bool = True,
    ):
        self.program, self.order = program, order
        self.events = [Event(m, m.receiver, "message") for m in messages]
        self.touches: list[dict[Cell, list[Touch]]] = [
            defaultdict(list) for _ in program.blocks
        ]
        for number in order.sequence:
            self._unroll(number, order.nodes[number])
        self._check_races()
        if adds_at_once:
            self._fuse()
        self.levels = self._levels()

    # ---- unroll the instructions

    def _unroll(self, number: int, node: Node) -> None:
        """Record the events and accesses of an instruction."""
        what, gpu = node.what, node.gpu
        source = self._named(gpu, what.source, what.chunks)
        target = self._named(gpu, what.target, what.chunks)
        if what.kind in ("cpy", "re"):
            self._inside(number, gpu, what.kind == "re", source, target)
            return
        if what.receives:
            if what.reduces and not what.keeps:  # the sum is forwarded, not stored
                target = [Cell(f"sum of {number}", cell.number) for cell in target]
            if what.reduces and source != target:
                self._inside(number, gpu, False, source, target)
            event = self.events[self.order.takes[number]]
            event.targets, event.adds = target, [what.reduces] * len(target)
            take = Touch(self.order.takes[number], number, what.reduces, True)
            self._touch(gpu, target, take)
        if what.sends:
            sent = target if what.receives else source
            self.events[self.order.sends[number]].sources = sent
            self._touch(gpu, sent, Touch(self.order.sends[number], number, True, False))

    def _named(self, gpu: int, first: Cell, count: int) -> list[Cell]:
        named = self.program.cells.named
        return [named(gpu, cell) for cell in cells_from(first, count)]

    def _touch(self, gpu: int, cells: list[Cell], touch: Touch) -> None:
        """Record an access to some cells."""
        for cell in cells:
            self.touches[gpu][cell].append(touch)

    def _inside(
        self, node: int, gpu: int, adds: bool, source: list[Cell], target: list[Cell]
    ) -> None:
        """Record a copy or an add inside a GPU."""
        if source == target and not adds:
            return
        number, kind = len(self.events), "add" if adds else "copy"
        added = [adds] * len(target)
        self.events.append(Event(None, gpu, kind, source, target, added))
        self._touch(gpu, source, Touch(number, node, True, False))
        self._touch(gpu, target, Touch(number, node, adds, True))

    def _check_races(self) -> None:
        """Check that all conflicting accesses to a cell are ordered."""
        for cell, touches in self._uses():
            written: list[int] = []
            read: list[int] = []
            for touch in touches:
                self.order.check(written, touch.node, cell)
                if touch.writes:
                    self.order.check(read, touch.node, cell)
                    written, read = [touch.node], []
                else:
                    read.append(touch.node)

    def _uses(self) -> Iterator[tuple[Cell, list[Touch]]]:
        """All cells of all GPUs, with their accesses."""
        return chain.from_iterable(of_gpu.items() for of_gpu in self.touches)

    # ---- fuse receives with adds

    def _fuse(self) -> None:
        """Fuse each receive into a cell whose only use is an add with that add."""
        for number, event in enumerate(self.events):
            if event.kind != "add":
                continue
            kept = []
            for source, target in zip(event.sources, event.targets, strict=True):
                if not self._add_at_once(event.gpu, number, source, target):
                    kept.append((source, target))
            event.sources = [source for source, _ in kept]
            event.targets = [target for _, target in kept]
            event.adds = [True] * len(kept)

    def _add_at_once(self, gpu: int, number: int, source: Cell, target: Cell) -> bool:
        """Let the messages into the source add to the target instead, if possible."""
        uses = self.touches[gpu][source]
        end = next(i for i, use in enumerate(uses) if use.event == number)
        first = self._brought(uses[:end])
        if first is None or source == target or not self._is_dead(gpu, source, end):
            return False
        brought = uses[first:end]
        for use in brought:
            event = self.events[use.event]
            place = event.targets.index(source)
            event.targets[place], event.adds[place] = target, True
        del uses[first : end + 1]
        sums = self.touches[gpu][target]
        here = next(i for i, use in enumerate(sums) if use.event == number)
        node = sums[here].node
        sums[here : here + 1] = [Touch(use.event, node, True, True) for use in brought]
        return True

    def _brought(self, uses: list[Touch]) -> int | None:
        """The index of the first access of a value that only messages have written."""
        for first in reversed(range(len(uses))):
            use = uses[first]
            if self.events[use.event].kind != "message" or not use.writes:
                return None
            if not use.reads:
                return first
        return None

    def _is_dead(self, gpu: int, cell: Cell, last: int) -> bool:
        """Whether no event reads a cell after one of its accesses."""
        uses = self.touches[gpu][cell]
        if last + 1 < len(uses):
            return not uses[last + 1].reads
        return cell not in self.program.cells.wanted(gpu)

    # ---- assign steps

    def _levels(self) -> list[int]:
        """The step of each event, as early as its dependencies allow.

        A step sends the values from before the step, so a write may share the step of
        an earlier read.
        """
        edges: dict[int, dict[int, int]] = defaultdict(dict)
        for _, touches in self._uses():
            self._add_accesses(edges, touches)
        last: dict[Connection, int] = {}
        for number, event in enumerate(self.events):
            if event.message is not None:
                add_edge(edges, last.get(event.connection, number), number, 0)
                last[event.connection] = number
        while True:
            found = levels(edges, len(self.events))
            apart = self._not_at_once(found)
            if not apart:
                return found
            for first, second in apart:
                add_edge(edges, first, second, 1)

    def _add_accesses(
        self, edges: dict[int, dict[int, int]], touches: list[Touch]
    ) -> None:
        """Add the dependencies between the accesses to one cell."""
        written: Touch | None = None
        read: list[Touch] = []
        for touch in touches:
            if written is not None:
                distance = 0 if self._are_alike(written, touch) else 1
                add_edge(edges, written.event, touch.event, distance)
            if touch.writes:
                for one in read:
                    add_edge(edges, one.event, touch.event, 0)
                written, read = touch, []
            else:
                read.append(touch)

    def _not_at_once(self, found: list[int]) -> list[tuple[int, int]]:
        """Pairs of messages of one connection that cannot share a step.

        Peers that add to a cell in the same step must all write the same set of cells.
        """
        together: dict[tuple[int, int], dict[Connection, list[int]]] = defaultdict(dict)
        for number, event in enumerate(self.events):
            if event.message is not None and event.targets:
                connections = together[found[number], event.gpu]
                connections.setdefault(event.connection, []).append(number)
        return [
            pair
            for connections in together.values()
            for connection in self._clashing(connections)
            for pair in pairwise(connections[connection])
        ]

    def _clashing(self, connections: dict[Connection, list[int]]) -> set[Connection]:
        """The connections whose cells overlap those of another without being equal."""
        brought = {
            connection: {
                pair
                for event in map(self.events.__getitem__, numbers)
                for pair in zip(event.targets, event.adds, strict=True)
            }
            for connection, numbers in connections.items()
        }
        by_cell: dict[Cell, list[Connection]] = defaultdict(list)
        for connection, pairs in brought.items():
            for cell, _ in pairs:
                by_cell[cell].append(connection)
        return {
            connection
            for first, *others in by_cell.values()
            for other in others
            if brought[first] != brought[other]
            for connection in (first, other)
        }

    def _are_alike(self, first: Touch, second: Touch) -> bool:
        """Whether two messages add to the same set of cells, so may share a step."""
        events = [self.events[touch.event] for touch in (first, second)]
        return (
            all(event.kind == "message" and all(event.adds) for event in events)
            and all(touch.reads and touch.writes for touch in (first, second))
            and set(events[0].targets) == set(events[1].targets)
        )
