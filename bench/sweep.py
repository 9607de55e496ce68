"""The parameters of a measurement, and the cells that they describe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from collalgo.bench.cells import PLACES, ROOTED, Cell, able, ops_of


@dataclass(frozen=True)
class Sweep:
    """The parameters of a measurement.

    ``algorithms`` are names, ``("all",)`` for all applicable ones, or empty for the
    selected one. ``places`` are ``out``, ``in`` or both. A ``root`` of None means every
    rank. With ``fresh`` the ranks write their input before each timed call; with
    ``fresh_sizes`` calls of sizes near each cell's are timed, never the same twice.
    ``in_a_row`` calls are timed together, by default the number of the cell; with
    ``long_rows``, in collectives where no rank can run ahead, enough calls for a
    minimum time. With ``trials``, all algorithms are first timed so often, and then
    only those that were about as fast as the fastest, and the selected one.
    """

    collectives: tuple[str, ...] = ("allreduce",)
    sizes: tuple[int, ...] = (8,)
    dtypes: tuple[str, ...] = ("float32",)
    op: str = "sum"
    root: int | None = 0
    places: tuple[str, ...] = ("out",)
    algorithms: tuple[str, ...] = ()
    iterations: int | None = None
    warmup: int = 2
    cycles: int = 1
    check: bool = True
    fresh: bool = True
    fresh_sizes: bool = False
    in_a_row: int | None = None
    long_rows: bool = False
    trials: int = 0
    against_mpi: bool = False
    files: tuple[str, ...] = ()

    def cells(self, ranks: int) -> Iterator[Cell]:
        """All valid combinations; one of those sizes that are as many elements."""
        found = set()
        for cell in self._combinations(ranks):
            arrays = cell._replace(nbytes=0), cell.counts(ranks)
            if arrays not in found:
                found.add(arrays)
                yield cell

    def _combinations(self, ranks: int) -> Iterator[Cell]:
        for collective in self.collectives:
            roots = self._roots(ranks) if collective in ROOTED else [0]
            sizes = self.sizes if collective != "barrier" else (0,)
            places = [p for p in PLACES[collective] if p in self.places]
            axes = self.dtypes, ops_of(collective, self.op), roots
            for dtype, op, root in product(*axes):
                for nbytes, place in product(sizes, places or PLACES[collective][:1]):
                    cell = Cell(collective, nbytes, dtype, op, root, place)
                    if able(cell):
                        yield cell

    def row(self, cell: Cell) -> int:
        """The number of calls of a cell that are timed together."""
        return self.in_a_row or cell.in_a_row

    @property
    def names_algorithms(self) -> bool:
        """Whether some algorithms are named, instead of all or the selected one."""
        return self.algorithms not in ((), ("all",))

    @property
    def algorithm(self) -> str | None:
        """The first named algorithm, or None."""
        return self.algorithms[0] if self.algorithms else None

    def _roots(self, ranks: int) -> Sequence[int]:
        if self.root is None:
            return range(ranks)
        if self.root >= ranks:
            raise ValueError(
                f"root {self.root} is out of range; there are {ranks} ranks"
            )
        return [self.root]
