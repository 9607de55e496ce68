"""The partial order of the instructions of a file.

The order follows from the blocks, the declared dependencies and the messages. Two
unordered accesses to the same cell are a race, which a proof of one order would miss.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.program import Message, Program, instruction

#: The most entries of the vector clocks: instructions times blocks.
LARGEST = 1 << 27


class Cycle(ScheduleError):
    """Events wait for each other in a cycle."""


class Node(NamedTuple):
    """An instruction and its position: GPU, block and step."""

    gpu: int
    block: int
    step: int
    kind: str

    def __str__(self) -> str:
        return f"step {self.step} ({self.kind}) of block {self.block} of GPU {self.gpu}"


class Order:
    """The instructions of a program in an order that respects all dependencies.

    Parameters
    ----------
    name
        The name of the program.
    nodes
        All instructions, by number; those of a block in their order.
    before
        For each node, the numbers of those that complete before it begins.

    Attributes
    ----------
    nodes, before : list
        As given.
    sequence : list of int
        The numbers of the nodes in a topological order.

    Raises
    ------
    ScheduleError
        If instructions wait for each other in a cycle, or are too many.
    """

    def __init__(self, name: str, nodes: list[Node], before: list[list[int]]):
        self.name, self.nodes, self.before = name, nodes, before
        self.sequence = self._sorted()
        self._clocks = self._vector_clocks()

    def _sorted(self) -> list[int]:
        """A topological order of the instructions, breadth first."""
        after: list[list[int]] = [[] for _ in self.nodes]
        missing = [len(before) for before in self.before]
        for i, before in enumerate(self.before):
            for one in before:
                after[one].append(i)
        ready = deque(i for i, count in enumerate(missing) if not count)
        found = []
        while ready:
            found.append(ready.popleft())
            for one in after[found[-1]]:
                missing[one] -= 1
                if not missing[one]:
                    ready.append(one)
        if len(found) < len(self.nodes):
            stuck = next(i for i, count in enumerate(missing) if count)
            raise ScheduleError(
                f"{self.name}: {self.nodes[stuck]} can never run; it is in a "
                "cycle of instructions that wait for each other"
            )
        return found

    def _vector_clocks(self) -> NDArray[np.uint16]:
        """The vector clocks: for each node, the completed steps of each block."""
        number: dict[tuple[int, int], int] = {}
        self._clock_of = [
            number.setdefault((n.gpu, n.block), len(number)) for n in self.nodes
        ]
        if len(self.nodes) * len(number) > LARGEST:
            raise ScheduleError(
                f"{self.name}: {len(self.nodes)} instructions in {len(number)} blocks "
                "are too many to be ordered"
            )
        clocks = np.zeros((len(self.nodes), len(number)), np.uint16)
        for i in self.sequence:
            for before in self.before[i]:
                np.maximum(clocks[i], clocks[before], out=clocks[i])
            clocks[i, self._clock_of[i]] = self.nodes[i].step + 1
        return clocks

    def is_before(self, first: int, second: int) -> bool:
        """Whether one node always completes before another, whatever the timing."""
        completed = int(self._clocks[second, self._clock_of[first]])
        return completed > self.nodes[first].step

    def check(self, earlier: Iterable[int], later: int, cell: Cell) -> None:
        """Check that a node accesses a cell after some other nodes.

        Raises
        ------
        ScheduleError
            If it may run at the same time as one of them.
        """
        for one in earlier:
            if one != later and not self.is_before(one, later):
                raise ScheduleError(
                    f"{self.name}: {self.nodes[one]} and {self.nodes[later]} "
                    f"both touch chunk {cell.number} of buffer {cell.buffer!r}, and "
                    "no dependency orders them",
                    rank=self.nodes[later].gpu,
                )


def _nodes(program: Program) -> list[Node]:
    return [
        Node(gpu, number, step, what.kind)
        for gpu, blocks in enumerate(program.blocks)
        for number, block in enumerate(blocks)
        for step, what in enumerate(block.steps)
    ]


def ordered(program: Program, messages: list[Message]) -> Order:
    """The order of the instructions of an MSCCL file."""
    nodes = _nodes(program)
    at = {node[:3]: i for i, node in enumerate(nodes)}
    before = [[i - 1] if node.step else [] for i, node in enumerate(nodes)]
    for i, node in enumerate(nodes):
        after = instruction(program, node[:3]).after
        if after is None:
            continue
        awaited = (node.gpu, *after)
        if awaited not in at:
            raise ScheduleError(
                f"{program.name}: {node} waits for step {after[1]} of block "
                f"{after[0]}, which does not exist"
            )
        before[i].append(at[awaited])
    for message in messages:
        before[at[message.taken]].append(at[message.sent])
    return Order(program.name, nodes, before)


def cells_from(first: Cell, count: int) -> Iterator[Cell]:
    """``count`` consecutive cells."""
    return (Cell(first.buffer, first.number + i) for i in range(count))


def add_edge(
    edges: dict[int, dict[int, int]], first: int, second: int, distance: int
) -> None:
    """Let an event be at least ``distance`` levels after another."""
    if first != second:
        edges[first][second] = max(distance, edges[first].get(second, 0))


def levels(edges: dict[int, dict[int, int]], count: int) -> list[int]:
    """The earliest level of each event, under minimum distances between events.

    Parameters
    ----------
    edges
        For each event, the minimum distance to its successors: 0 or 1 levels.
    count
        The number of events.

    Raises
    ------
    Cycle
        If the constraints have a cycle of positive length.
    """
    found = [0] * count
    waiting = deque(range(count))
    queued = [True] * count
    while waiting:
        event = waiting.popleft()
        queued[event] = False
        for other, later in edges.get(event, {}).items():
            if found[other] < found[event] + later:
                found[other] = found[event] + later
                if found[other] > count:
                    raise Cycle("messages wait for each other in a cycle")
                if not queued[other]:
                    waiting.append(other)
                    queued[other] = True
    return found
