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
from collalgo.integrations.msccl.program import Instruction, Message, Program

#: The most entries of the vector clocks: instructions times blocks.
LARGEST = 1 << 27


class Cycle(ScheduleError):
    """Events wait for each other in a cycle."""


class Node(NamedTuple):
    """An instruction and its position: GPU, block and step."""

    gpu: int
    block: int
    step: int
    what: Instruction

    def __str__(self) -> str:
        return (
            f"step {self.step} ({self.what.kind}) of block {self.block} of GPU "
            f"{self.gpu}"
        )


class Order:
    """The instructions of a program in an order that respects all dependencies.

    Attributes
    ----------
    nodes : list of Node
        All instructions, by number.
    sequence : list of int
        Their numbers in a topological order.
    sends, takes : dict
        The number of the message that a node sends, and that it receives.
    """

    def __init__(self, program: Program, messages: list[Message]):
        self.program = program
        self.nodes = [
            Node(gpu, number, step, what)
            for gpu, blocks in enumerate(program.blocks)
            for number, block in enumerate(blocks)
            for step, what in enumerate(block.steps)
        ]
        self._at = {node[:3]: i for i, node in enumerate(self.nodes)}
        self.sends = {self._at[m.sent]: i for i, m in enumerate(messages)}
        self.takes = {self._at[m.taken]: i for i, m in enumerate(messages)}
        self._before: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            if node.step:
                self._before[i].append(i - 1)
            if node.what.after is not None:
                self._before[i].append(self._awaited(node, node.what.after))
        for message in messages:
            self._before[self._at[message.taken]].append(self._at[message.sent])
        self.sequence = self._sorted()
        self._clocks = self._vector_clocks()

    def _awaited(self, node: Node, after: tuple[int, int]) -> int:
        found = self._at.get((node.gpu, *after))
        if found is None:
            raise ScheduleError(
                f"{self.program.name}: {node} waits for step {after[1]} of block "
                f"{after[0]}, which does not exist"
            )
        return found

    def _sorted(self) -> list[int]:
        """A topological order of the instructions, breadth first."""
        after: list[list[int]] = [[] for _ in self.nodes]
        missing = [len(before) for before in self._before]
        for i, before in enumerate(self._before):
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
                f"{self.program.name}: {self.nodes[stuck]} can never run; it is in a "
                "cycle of instructions that wait for each other"
            )
        return found

    def _vector_clocks(self) -> NDArray[np.uint16]:
        """The vector clocks: for each node, the completed steps of each block."""
        first = np.cumsum([0, *map(len, self.program.blocks)])
        if len(self.nodes) * int(first[-1]) > LARGEST:
            raise ScheduleError(
                f"{self.program.name}: {len(self.nodes)} instructions in {first[-1]} "
                "blocks are too many to be ordered"
            )
        self._clock_of = [int(first[n.gpu]) + n.block for n in self.nodes]
        clocks = np.zeros((len(self.nodes), int(first[-1])), np.uint16)
        for i in self.sequence:
            for before in self._before[i]:
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
                    f"{self.program.name}: {self.nodes[one]} and {self.nodes[later]} "
                    f"both touch chunk {cell.number} of buffer {cell.buffer!r}, and "
                    "nothing says which comes first",
                    rank=self.nodes[later].gpu,
                )


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
