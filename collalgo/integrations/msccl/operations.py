"""The operations of a file on the cells of each GPU, and the earliest step of each.

A receive into scratch followed by a single add becomes a receive that reduces.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise

from collalgo.integrations.msccl.cells import Cell, Cells
from collalgo.integrations.msccl.events import Events, Touch
from collalgo.integrations.msccl.order import add_edge, levels
from collalgo.integrations.msccl.program import Connection


class Operations:
    """The events of a program, and the accesses to each cell in order.

    Parameters
    ----------
    cells
        The cells of the collective.
    found
        The events, which are changed.
    adds_at_once
        Whether a receive into a cell whose only use is an add becomes that add.

    Attributes
    ----------
    events, touches : list
        The events, and for each GPU the accesses to each cell in order.
    levels : list of int
        The step of each event.

    Raises
    ------
    Cycle
        If events wait for each other in a cycle.
    ScheduleError
        If two unordered instructions access the same cell, and one writes it.
    """

    def __init__(self, cells: Cells, found: Events, adds_at_once: bool = True):
        self.cells, self.order = cells, found.order
        self.events, self.touches = found.events, found.touches
        self._check_races(found)
        if adds_at_once:
            self._fuse()
        self.levels = self._levels()

    def _check_races(self, found: Events) -> None:
        """Check that all conflicting accesses to a cell are ordered."""
        places = [(gpu, cell) for gpu, on in enumerate(self.touches) for cell in on]
        for gpu, cell in places:
            written: list[int] = []
            read: list[int] = []
            for touch in found.uses(gpu, cell):
                found.visible.check(written, touch.node, cell)
                if touch.writes:
                    self.order.check(read, touch.node, cell)
                    written, read = [touch.end], []
                else:
                    read.append(touch.end)

    def _uses(self) -> Iterator[tuple[Cell, list[Touch]]]:
        """All cells of all GPUs, with their accesses."""
        return chain.from_iterable(of_gpu.items() for of_gpu in self.touches)

    # ---- fuse receives with adds

    def _fuse(self) -> None:
        """Fuse each receive with the add that is the only use of its cell."""
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
        return cell not in self.cells.wanted(gpu)

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
