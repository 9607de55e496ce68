"""Convert MSCCL files to algorithms, and algorithms to MSCCL files."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from collalgo.algorithms.row import Algorithm
from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cells
from collalgo.integrations.msccl.msccl import read, text_of
from collalgo.integrations.msccl.program import Program
from collalgo.integrations.msccl.steps import RankSteps, Translator
from collalgo.integrations.msccl.writing import ProgramWriter
from collalgo.schedule import Group, Step, Transfer, trace
from collalgo.schedule.chunk import Chunks, divide, merge, spare


class FromFile:
    """A schedule with the steps of a file.

    Parameters
    ----------
    cells
        The cells of the collective.
    steps
        The steps of all ranks.
    file
        The name of the file.
    """

    def __init__(self, cells: Cells, steps: list[RankSteps], file: str):
        self.cells, self.steps = cells, steps
        self.__doc__ = f"The schedule of {Path(file).name}."
        self.__qualname__ = f"{type(self).__name__}({file!r})"

    def __call__(self, group: Group) -> Iterator[Step]:
        """The steps of a rank."""
        if group.size != self.cells.size:
            raise ScheduleError(
                f"the file is for {self.cells.size} ranks and the group has "
                f"{group.size}; they must be equal"
            )
        parts = group.once(self, lambda: self._parts(group))
        for moves in self.steps[group.rank]:
            yield tuple(
                Transfer(
                    move.kind,
                    group.peer(move.peer),
                    spare(merge(chain(*(parts[h] for h in move.homes))), move.spare),
                    move.lane,
                )
                for move in moves
            )

    def _parts(self, group: Group) -> list[Chunks]:
        """The chunks of all parts of the buffer."""
        size, each = range(group.size), self.cells.each
        match self.cells.collective:
            case "alltoall":
                blocks: list[Chunks] = [
                    (group.block(source, target),) for source in size for target in size
                ]
            case "allreduce":
                blocks = [group.whole]
            case _:
                blocks = [group.chunk(rank) for rank in size]
        return [part for block in blocks for part in divide(block, each)]


def algorithm_of(path: str | Path) -> Algorithm:
    """Read the algorithm of an MSCCL file, for the number of ranks of the file.

    It is not added to the table. It is proved before its first run.

    Raises
    ------
    ScheduleError
        If the file cannot be read, or if its instructions deadlock or race.
    """
    return named_after(read(path), str(path))


def named_after(program: Program, file: str) -> Algorithm:
    """The algorithm of a program, under the program's name."""
    return of_translator(Translator.of(program), file)


def of_translator(translator: Translator, file: str) -> Algorithm:
    """The algorithm of a file with translated events."""
    cells = translator.cells

    def obstacle(size: int) -> str | None:
        return None if size == cells.size else f"is of a file for {cells.size} ranks"

    return Algorithm(
        cells.collective,
        re.sub(r"\W|^(?=\d)", "_", translator.name),
        FromFile(cells, translator.steps(), file),
        size_obstacle=obstacle,
        unproved=True,
    )


def program_of(row: Algorithm, size: int) -> Program:
    """The program of an algorithm for ``size`` GPUs."""
    name = f"{row.collective}_{row.name}_{size}"
    schedules = [trace(row.schedule, rank, size) for rank in range(size)]
    return ProgramWriter(name, row.collective, schedules).program()


def xml_of(row: Algorithm, size: int, protocol: str = "Simple") -> str:
    """Write an algorithm for ``size`` ranks as MSCCL XML.

    Parameters
    ----------
    row
        The algorithm.
    size
        The number of ranks, each a GPU.
    protocol
        The protocol of NCCL: Simple, LL or LL128.

    Raises
    ------
    AlgorithmNotApplicable
        If MSCCL does not support the collective.
    """
    return text_of(program_of(row, size), protocol)
