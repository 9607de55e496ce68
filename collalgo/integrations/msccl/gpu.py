"""Build the thread blocks of one GPU.

Each connection has its own block; local operations of the GPU have another. An
instruction waits for the previous accesses to its cells.
"""

from collections import defaultdict

from collalgo.integrations.msccl.cells import Cell, Cells
from collalgo.integrations.msccl.program import Block, Instruction

#: A block, and a step in it.
Position = tuple[int, int]


class Gpu:
    """The thread blocks of one GPU.

    Parameters
    ----------
    rank
        The rank of the GPU.
    cells
        The cells of the collective.
    """

    def __init__(self, rank: int, cells: Cells):
        self.rank, self.cells = rank, cells
        self.blocks: list[Block] = []
        self._number: dict[tuple[int | None, int | None, int], int] = {}
        self._written: dict[Cell, Position] = {}
        self._read: dict[Cell, list[Position]] = defaultdict(list)
        self._waited: dict[Position, int] = {}
        self._scratch: dict[tuple[object, int], int] = {}

    def cell(self, buffer: object, home: int) -> Cell:
        """The chunk for a part of the user's buffer (0) or of another buffer."""
        if buffer == 0:
            found = self._of_user(home)
            if found is not None:
                return found
        number = self._scratch.setdefault((buffer, home), len(self._scratch))
        return Cell("s", number)

    def _of_user(self, home: int) -> Cell | None:
        """The chunk of the input or output that holds a part, if there is one."""
        size, each = self.cells.size, self.cells.each
        if self.cells.collective == "allgather":
            return Cell("o", home)
        if self.cells.collective != "alltoall":
            return Cell("i", home)
        block, k = divmod(home, each)
        source, target = divmod(block, size)
        if source == self.rank:
            return Cell("i", target * each + k)
        return Cell("o", source * each + k) if target == self.rank else None

    def add(
        self,
        connection: tuple[int | None, int | None, int],
        kind: str,
        source: Cell,
        target: Cell,
        count: int,
    ) -> None:
        """Append an instruction, after the waits for its dependencies."""
        block = self._number.setdefault(connection, len(self.blocks))
        if block == len(self.blocks):
            self.blocks.append(Block(self.rank, *connection))
        reads = _row(source, count) if kind in ("s", "cpy", "re") else []
        writes = [] if kind == "s" else _row(target, count)
        steps = self.blocks[block].steps
        awaited = self._awaited(block, reads, writes)
        for after in awaited[:-1]:
            steps.append(Instruction("nop", Cell("i", 0), Cell("o", 0), 0, after))
        last = awaited[-1] if awaited else None
        steps.append(Instruction(kind, source, target, count, last))
        position = block, len(steps) - 1
        for cell in reads:
            self._read[cell].append(position)
        for cell in writes:
            self._written[cell] = position
            self._read[cell] = []

    def _awaited(
        self, block: int, reads: list[Cell], writes: list[Cell]
    ) -> list[Position]:
        """The steps of other blocks to wait for, unless a previous wait covers them."""
        before = [self._written[c] for c in (*reads, *writes) if c in self._written]
        before += [position for cell in writes for position in self._read[cell]]
        last: dict[int, int] = {}
        for other, step in before:
            if other != block:
                last[other] = max(step, last.get(other, -1))
        awaited = [
            (other, step)
            for other, step in sorted(last.items())
            if step > self._waited.get((block, other), -1)
        ]
        for other, step in awaited:
            self._waited[block, other] = step
        return awaited


def _row(first: Cell, count: int) -> list[Cell]:
    return [Cell(first.buffer, first.number + i) for i in range(count)]
