"""What the instructions of a file do to the cells of each GPU, and when that can be.

What receives into scratch only to be added somewhere is a receive that reduces there.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.order import Node, Order, cells_from, levels
from collalgo.integrations.msccl.program import Message, Program, Way


class Touch(NamedTuple):
    """One use of a cell by an event; ``writes`` if it is another value afterwards.

    What ``reads`` and writes adds to what is there.
    """

    event: int
    node: int
    reads: bool
    writes: bool


@dataclass
class Event:
    """What happens at once: a message, or something inside of a GPU.

    Attributes
    ----------
    message : Message or None
        What is sent, if anything.
    gpu : int
        Where it ends.
    kind : str
        ``message``, ``copy`` or ``add``.
    sources, targets : list of Cell
        What is read at its one end and written at the other, in the same order.
    adds : list of bool
        Whether each target has what comes added to it.
    """

    message: Message | None
    gpu: int
    kind: str
    sources: list[Cell] = field(default_factory=list)
    targets: list[Cell] = field(default_factory=list)
    adds: list[bool] = field(default_factory=list)

    @property
    def way(self) -> Way:
        """From where to where, and on which channel."""
        return (self.gpu, self.gpu, 0) if self.message is None else self.message[:3]


class Operations:
    """The events of a program, and how each cell is used by them in turn.

    Attributes
    ----------
    events : list of Event
        The messages first, in the order in which they were given.
    touches : list of dict
        For each GPU the uses of each cell, the first first.
    levels : list of int
        The step of each event.

    Raises
    ------
    Circle
        If events wait for each other.
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

    # ---- one instruction after the other

    def _unroll(self, number: int, node: Node) -> None:
        """Note what an instruction does."""
        what, gpu = node.what, node.gpu
        source = self._named(gpu, what.source, what.chunks)
        target = self._named(gpu, what.target, what.chunks)
        if what.kind in ("cpy", "re"):
            self._inside(number, gpu, what.kind == "re", source, target)
            return
        if what.receives:
            if what.reduces and not what.keeps:  # the sum goes on, and is not kept here
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
        """Note that some cells are used."""
        for cell in cells:
            self.touches[gpu][cell].append(touch)

    def _inside(
        self, node: int, gpu: int, adds: bool, source: list[Cell], target: list[Cell]
    ) -> None:
        """Note what is copied or added inside of a GPU."""
        if source == target and not adds:
            return
        number, kind = len(self.events), "add" if adds else "copy"
        added = [adds] * len(target)
        self.events.append(Event(None, gpu, kind, source, target, added))
        self._touch(gpu, source, Touch(number, node, True, False))
        self._touch(gpu, target, Touch(number, node, adds, True))

    def _check_races(self) -> None:
        """See that whoever uses a cell does so in an order that is certain."""
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
        """All cells of all GPUs, with their uses."""
        return chain.from_iterable(of_gpu.items() for of_gpu in self.touches)

    # ---- what is received to be added

    def _fuse(self) -> None:
        """Let what is received into a cell, only to be added, be added at once."""
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
        """Let messages add to the target what they bring, or add, to the source."""
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
        """Where the uses begin that bring a value, if messages alone have done so."""
        for first in reversed(range(len(uses))):
            use = uses[first]
            if self.events[use.event].kind != "message" or not use.writes:
                return None
            if not use.reads:
                return first
        return None

    def _is_dead(self, gpu: int, cell: Cell, last: int) -> bool:
        """Whether nobody reads a cell after one of its uses."""
        uses = self.touches[gpu][cell]
        if last + 1 < len(uses):
            return not uses[last + 1].reads
        return cell not in self.program.cells.wanted(gpu)

    # ---- when

    def _levels(self) -> list[int]:
        """The step of each event, if every one happens as early as can be.

        What is sent in a step is what was there before: who overwrites it may come in
        the same step.
        """
        edges: dict[int, dict[int, int]] = defaultdict(dict)

        def later(first: int, second: int, by: int) -> None:
            if first != second:
                edges[first][second] = max(by, edges[first].get(second, 0))

        for _, touches in self._uses():
            written: Touch | None = None
            read: list[Touch] = []
            for touch in touches:
                if written is not None:
                    alike = self._are_alike(written, touch)
                    later(written.event, touch.event, 0 if alike else 1)
                if touch.writes:
                    for one in read:
                        later(one.event, touch.event, 0)
                    written, read = touch, []
                else:
                    read.append(touch)
        last: dict[Way, int] = {}
        for number, event in enumerate(self.events):
            if event.message is not None:
                if event.way in last:
                    later(last[event.way], number, 0)
                last[event.way] = number
        while True:
            found = levels(edges, len(self.events))
            apart = self._not_at_once(found)
            if not apart:
                return found
            for first, second in apart:
                later(first, second, 1)

    def _not_at_once(self, found: list[int]) -> list[tuple[int, int]]:
        """Messages of one way that cannot come as one, by the levels of all.

        What several peers add to the same at once must be equal from each of them.
        """
        together: dict[tuple[int, int], dict[Way, list[int]]] = defaultdict(dict)
        for number, event in enumerate(self.events):
            if event.message is not None and event.targets:
                ways = together[found[number], event.gpu]
                ways.setdefault(event.way, []).append(number)
        return [
            pair
            for ways in together.values()
            for way in self._clashing(ways)
            for pair in pairwise(ways[way])
        ]

    def _clashing(self, ways: dict[Way, list[int]]) -> set[Way]:
        """The ways that bring some of what another brings, but not the very same."""
        brought = {
            way: {
                pair
                for event in map(self.events.__getitem__, numbers)
                for pair in zip(event.targets, event.adds, strict=True)
            }
            for way, numbers in ways.items()
        }
        by_cell: dict[Cell, list[Way]] = defaultdict(list)
        for way, pairs in brought.items():
            for cell, _ in pairs:
                by_cell[cell].append(way)
        return {
            way
            for first, *others in by_cell.values()
            for other in others
            if brought[first] != brought[other]
            for way in (first, other)
        }

    def _are_alike(self, first: Touch, second: Touch) -> bool:
        """Whether two messages add to the very same cells, as they may at once."""
        events = [self.events[touch.event] for touch in (first, second)]
        return (
            all(event.kind == "message" and all(event.adds) for event in events)
            and all(touch.reads and touch.writes for touch in (first, second))
            and set(events[0].targets) == set(events[1].targets)
        )
