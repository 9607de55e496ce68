"""Map the chunks of a file to the parts of the buffer of a collective.

A file names a chunk by buffer and number: ``i`` is the input, ``o`` the output and
``s`` scratch. A schedule has one buffer; the part of it that a chunk holds is the
*home* of the chunk.
"""

from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.schedule.collective import COLLECTIVES


class Cell(NamedTuple):
    """A chunk of a buffer of one GPU."""

    buffer: str
    number: int


#: The most chunks of the input or output of all GPUs.
MOST_CHUNKS = 1 << 22

#: The collectives of files, by the names that tools give them.
NAMES = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "alltoall",
}


class Cells(NamedTuple):
    """The cells of a collective.

    Attributes
    ----------
    collective : str
        The collective.
    size : int
        The number of ranks.
    each : int
        The number of parts of a block, or of the whole buffer without blocks.
    in_place : bool
        Whether the output is part of the input, or the input part of the output.
    """

    collective: str
    size: int
    each: int
    in_place: bool

    @classmethod
    def of(cls, collective: str, size: int, chunks: int, in_place: bool) -> "Cells":
        """The cells of a file; ``chunks`` counts the longer of input and output."""
        if chunks * size > MOST_CHUNKS:
            raise ScheduleError(
                f"the GPUs have {chunks * size} chunks together, more than "
                f"{MOST_CHUNKS}"
            )
        if COLLECTIVES[collective].blocks == 0:
            return cls(collective, size, chunks, in_place)
        if chunks % size:
            raise ScheduleError(
                f"{collective}: {chunks} chunks cannot be divided among {size} ranks"
            )
        return cls(collective, size, chunks // size, in_place)

    @property
    def parts(self) -> int:
        """The number of parts of the whole buffer."""
        return int(self.each * self.size ** COLLECTIVES[self.collective].blocks)

    @property
    def chunks(self) -> int:
        """The number of chunks of the longer of a rank's input and output."""
        return self.parts // COLLECTIVES[self.collective].buffers(self.size)

    def named(self, rank: int, cell: Cell) -> Cell:
        """The canonical name of a cell that belongs to both input and output."""
        buffer, number = cell
        if self.collective == "allgather" and buffer == "i":
            return Cell("o", rank * self.each + number)
        if self.in_place and buffer == "o" and self.collective != "allgather":
            first = rank * self.each if self.collective == "reduce_scatter" else 0
            return Cell("i", first + number)
        return cell

    def given(self, rank: int) -> dict[Cell, int]:
        """The cells with initial data, and their homes."""
        first = rank * self.each
        match self.collective:
            case "allgather":
                return {Cell("o", first + k): first + k for k in range(self.each)}
            case "alltoall":
                row = first * self.size
                return {Cell("i", k): row + k for k in range(self.chunks)}
            case _:
                return {Cell("i", k): k for k in range(self.parts)}

    def wanted(self, rank: int) -> dict[Cell, int]:
        """The cells that must hold the result at the end, and their homes."""
        first, each = rank * self.each, self.each
        match self.collective:
            case "reduce_scatter":
                found = {Cell("o", k): first + k for k in range(each)}
            case "alltoall":
                found = {
                    Cell("o", source * each + k): (source * self.size + rank) * each + k
                    for source in range(self.size)
                    for k in range(each)
                }
            case _:
                found = {Cell("o", k): k for k in range(self.parts)}
        return {self.named(rank, cell): home for cell, home in found.items()}
