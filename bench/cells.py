"""A cell: one collective on arrays of one size, with its expected result."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo import Communicator
from collalgo.engine.reduction import OPS
from collalgo.engine.ufuncs import LOGICAL, UFUNCS
from collalgo.schedule.collective import COLLECTIVES

Array = NDArray[Any]

#: Where a collective can put its result: out of place, or in place.
PLACES = {
    "allreduce": ("out", "in"),
    "broadcast": ("in",),
    "reduce": ("out", "in"),
    "allgather": ("out", "in"),
    "reduce_scatter": ("out", "in"),
    "alltoall": ("out",),
    "gather": ("out", "in"),
    "scatter": ("out", "in"),
    "scan": ("out", "in"),
    "exscan": ("out", "in"),
    "barrier": ("in",),
}

#: Collectives whose size counts the blocks of all ranks.
BLOCKS = tuple(name for name in PLACES if COLLECTIVES[name].blocks)

REDUCING = tuple(name for name in PLACES if COLLECTIVES[name].reduces)
ROOTED = tuple(name for name in PLACES if COLLECTIVES[name].rooted)

#: Collectives in which every rank waits for every other, so that none runs ahead.
MUTUAL = ("allreduce", "allgather", "reduce_scatter", "alltoall", "barrier")

#: Barriers timed together. A single one starts at another barrier, and its time depends
#: on how their total is split between the two.
BARRIERS = 16

#: The content of an output array before the call.
JUNK = 7


class Cell(NamedTuple):
    """The independent variables of a measurement."""

    collective: str
    nbytes: int
    dtype: str = "float32"
    op: str | None = None
    root: int = 0
    place: str = "out"

    def counts(self, size: int) -> tuple[int, int]:
        """The elements of a rank's block, and of the whole array of the cell."""
        if self.collective == "barrier":
            return 0, 0
        shares = size if self.collective in BLOCKS else 1
        block = max(1, self.nbytes // (shares * dtype_of(self.dtype).itemsize))
        return block, block * shares

    @property
    def in_a_row(self) -> int:
        """The default number of calls timed together."""
        return BARRIERS if self.collective == "barrier" else 1

    def spec(self, size: int) -> dict[str, Any]:
        """The parameters by which a process of any library makes the same call."""
        block, count = self.counts(size)
        return {**self._asdict(), "block": block, "count": count}

    def busbw_factor(self, size: int) -> float:
        """The factor from algorithm bandwidth to bus bandwidth."""
        if self.collective == "allreduce":
            return 2 * (size - 1) / size
        return (size - 1) / size if self.collective in BLOCKS else 1.0


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype with a name of NumPy or ``ml_dtypes``."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


class Bench:
    """A cell on one rank: its arrays, its timed call, and its check.

    Parameters
    ----------
    cell
        The cell to measure.
    comm
        The communicator.
    """

    def __init__(self, cell: Cell, comm: Communicator):
        self.cell = cell
        self.comm = comm
        self.block, self.count = cell.counts(comm.size)
        self.dtype = dtype_of(cell.dtype)
        self.nbytes = self.count * self.dtype.itemsize
        self.at_root = comm.rank == cell.root
        self.source, self.out = self._arrays()

    def _arrays(self) -> tuple[Array, Array | None]:
        """The input array with this rank's data, and the output array."""
        cell, rank = self.cell, self.comm.rank
        out_of_place = cell.place == "out"
        match cell.collective:
            case "allgather" | "gather":
                return self._block_and_table(out_of_place)
            case "reduce_scatter":
                source = self._data(rank, self.count)
                block = np.split(source, self.comm.size)[rank]
                return source, np.empty_like(block) if out_of_place else block
            case "scatter":
                own = np.full(self.block, JUNK).astype(self.dtype)
                table = np.stack([self._data(i, self.block) for i in self._ranks])
                out = np.empty_like(own) if out_of_place else None
                return table if self.at_root else own, out
            case "alltoall":
                source = self._data(rank, self.count)
                return source, np.empty_like(source)
            case _:
                source = self._data(rank, self.count)
                return source, np.full_like(source, JUNK) if out_of_place else None

    def _block_and_table(self, out_of_place: bool) -> tuple[Array, Array]:
        """The block of the rank, and the table of the blocks of all ranks."""
        table = np.full((self.comm.size, self.block), JUNK).astype(self.dtype)
        block = self._data(self.comm.rank, self.block)
        if not out_of_place:
            table[self.comm.rank] = block
            block = table[self.comm.rank]
        return block, table

    @property
    def _ranks(self) -> range:
        return range(self.comm.size)

    def _data(self, rank: int, count: int) -> Array:
        """Small integers, whose sums and products are exact."""
        ramp = np.arange(count)
        values: Array
        if self.cell.op == "prod":
            values = ((ramp + rank) % 3 == 0).astype(self.dtype) + self.dtype.type(1)
        elif self.dtype == np.bool_:
            values = (ramp + rank) % 2 == 0
        else:
            values = (1 + ramp % 5 + rank % 3).astype(self.dtype)
        return values

    def call(self, algorithm: Any = None) -> Callable[[], object]:
        """The call as a function without arguments."""
        op, root, source, out = self.cell.op, self.cell.root, self.source, self.out
        method: Callable[..., object] = getattr(self.comm, self.cell.collective)
        if algorithm is not None:
            method = partial(method, algorithm=algorithm)
        match self.cell.collective:
            case "barrier":
                return method
            case "broadcast":
                return lambda: method(source, root)
            case "reduce":
                return lambda: method(source, op, root, out=out)
            case "gather" | "scatter":
                return lambda: method(source, root, out=out)
            case "allgather" | "alltoall":
                return lambda: method(source, out=out)
            case _:
                return lambda: method(source, op, out=out)

    def wrong(self, algorithm: Any = None) -> int:
        """The number of wrong elements of a new call, on all ranks together."""
        self.source, self.out = self._arrays()
        found = self.call(algorithm)()
        wrong = 0
        if isinstance(found, np.ndarray):
            wrong = differing(found, self._expected(found))
        total = np.array([wrong])
        self.comm.allreduce(total)
        return int(total[0])

    def _expected(self, found: Array) -> Array:
        cell, rank = self.cell, self.comm.rank
        match cell.collective:
            case "broadcast":
                return self._data(cell.root, self.count)
            case "allgather" | "gather":
                return np.stack([self._data(i, self.block) for i in self._ranks])
            case "scatter":
                return self._data(rank, self.block)
            case "alltoall":
                rows = [self._data(i, self.count) for i in self._ranks]
                return np.concatenate([np.split(r, self.comm.size)[rank] for r in rows])
            case "scan":
                return self._reduced(range(rank + 1))
            case "exscan":
                return self._reduced(range(rank)) if rank else found
            case "reduce_scatter":
                return np.split(self._reduced(self._ranks), self.comm.size)[rank]
            case _:
                return self._reduced(self._ranks)

    def _reduced(self, ranks: range) -> Array:
        """The data of some ranks, reduced by NumPy."""
        op = self.cell.op or "sum"
        wide = self.dtype
        if wide.kind not in "biuc" and wide.itemsize < 4:
            wide = np.dtype(np.float32)
        if op == "avg" and wide.kind in "iu":
            wide = np.dtype(f"{wide.kind}8")
        data = (self._data(rank, self.count).astype(wide) for rank in ranks)
        total = reduce(lambda a, b: UFUNCS[op](a, b).astype(wide), data)
        if op in LOGICAL:
            total = (total != 0).astype(wide)
        if op == "avg":
            size = self.comm.size
            total = total // size if wide.kind in "iu" else total / wide.type(size)
        return total.astype(self.dtype)


def differing(found: Array, expected: Array) -> int:
    """The number of elements that differ by more than two units in the last place."""
    if found.dtype.kind in "biu":
        return int(np.count_nonzero(found != expected))
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    error = np.abs(found.astype(wide) - expected.astype(wide))
    digits = {2: 2.0**-10, 4: 2.0**-22, 8: 2.0**-51, 16: 2.0**-51}
    unit = digits.get(found.dtype.itemsize, 0.25)
    bound = 2 * unit * np.abs(expected.astype(wide))
    return int(np.count_nonzero(~(error <= bound)))


def able(cell: Cell) -> bool:
    """Whether the dtype supports the op."""
    from collalgo.engine.reduction import reduction

    if cell.op is None:
        return True
    if COLLECTIVES[cell.collective].prefix and cell.op == "avg":
        return False
    try:
        reduction(dtype_of(cell.dtype), cell.op)
    except TypeError:
        return False
    return True


def ops_of(collective: str, wanted: str) -> list[str | None]:
    """The ops to measure: one or all; None for collectives without a reduction."""
    if collective not in REDUCING:
        return [None]
    return list(OPS) if wanted == "all" else [wanted]
