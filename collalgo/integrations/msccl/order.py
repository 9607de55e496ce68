"""In which order the instructions of a file happen, and which may happen at once.

What must come before what follows from the blocks, from what instructions wait for and
from the messages. Two that touch the same cell in no such order are a race, which no
proof of one order would show.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.program import Instruction, Message, Program

#: How many numbers may say what comes before what: of instructions times blocks.
LARGEST = 1 << 27


class Circle(ScheduleError):
    """Events wait for each other."""


class Node(NamedTuple):
    """An instruction and where it is: its GPU, block and step."""

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
    """The instructions of a program in an order in which they can happen.

    Attributes
    ----------
    nodes : list of Node
        All of them, by number.
    sequence : list of int
        Their numbers in that order.
    message_of : list of dict
        The number of the message that a node sends, and of the one that it takes.
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
        self._clocks = self._told()

    def _awaited(self, node: Node, after: tuple[int, int]) -> int:
        found = self._at.get((node.gpu, *after))
        if found is None:
            raise ScheduleError(
                f"{self.program.name}: {node} waits for step {after[1]} of block "
                f"{after[0]}, which does not exist"
            )
        return found

    def _sorted(self) -> list[int]:
        """An order in which all can happen; first what could happen first."""
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
                f"{self.program.name}: {self.nodes[stuck]} can never happen, as it is "
                "in a circle of instructions that wait for each other"
            )
        return found

    def _told(self) -> NDArray[np.uint16]:
        """For each node how many steps of each block are over when it happens."""
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
        """Whether one node is over before another happens, whatever takes how long."""
        over = int(self._clocks[second, self._clock_of[first]])
        return over > self.nodes[first].step

    def check(self, earlier: Iterable[int], later: int, cell: Cell) -> None:
        """See that a node that touches a cell does so after some others.

        Raises
        ------
        ScheduleError
            If it may happen at the same time as one of them.
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
    """So many cells in a row."""
    return (Cell(first.buffer, first.number + i) for i in range(count))


def levels(edges: dict[int, dict[int, int]], count: int) -> list[int]:
    """The earliest level of each event, if some must come so much later than others.

    Parameters
    ----------
    edges
        For an event, by how many levels at least each other one is later: 0 or 1.
    count
        The number of events.

    Raises
    ------
    Circle
        If there are none.
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
                    raise Circle("messages wait for each other in a circle")
                if not queued[other]:
                    waiting.append(other)
                    queued[other] = True
    return found
