"""The cells of the coverage: calls on two ranks, and what became of each.

A call is right if its result is that of NumPy, in an array of the kind of the argument;
all other calls must raise a TypeError or a ValueError that names the call or the dtype,
on both ranks and before any message.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import collalgo
from collalgo.comm.current import runner_of
from collalgo.engine.ufuncs import LOGICAL, UFUNCS
from docs.coverage_kinds import KINDS, Missing, is_of_kind, values_of

#: By the name of a row, its dtypes.
DTYPES: dict[str, tuple[Any, ...]] = {
    "bool": ("?",),
    "int8 to int64, uint8 to uint64": ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    "integers, other byte order": (">i2", ">u8"),
    "float16, float32, float64": ("f2", "f4", "f8"),
    "floats, other byte order": (">f4", ">f8"),
    "longdouble": (np.longdouble,),
    "bfloat16": (ml_dtypes.bfloat16,),
    "float8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    "int4": (ml_dtypes.int4,),
    "complex64, complex128": ("c8", "c16"),
    "clongdouble": (np.clongdouble,),
    "datetime64": ("M8[s]",),
    "timedelta64": ("m8[s]",),
    "text (U, S)": ("U3", "S3"),
    "void": ("V4",),
    "structure": ("i4,f8,S2",),
    "value and index": ("f4,i4",),
    "object": (object,),
}

OPS = (
    *("sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor"),
    *("minloc", "maxloc", "argmin", "argmax", "replace", "no_op", "hypot"),
)

#: NumPy's form of an op for two contributions.
EXPECTED: dict[str, Callable[[Any, Any], Any]] = {
    **UFUNCS,
    "avg": lambda a, b: (a + b) // 2 if a.dtype.kind in "iu" else (a + b) / 2,
    "minloc": lambda a, b: np.where(a["f0"] <= b["f0"], a, b),
    "maxloc": lambda a, b: np.where(a["f0"] >= b["f0"], a, b),
    "argmin": lambda a, b: (b < a).astype("i8"),
    "argmax": lambda a, b: (b > a).astype("i8"),
    "replace": lambda _, b: b,
    "no_op": lambda a, _: a,
    "hypot": np.hypot,
}

PLACES = ("argmin", "argmax")  # whose results are ranks

REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")

MOVING = ("broadcast", "allgather", "alltoall", "gather", "scatter")


class Cell(NamedTuple):
    """A call: its collective, op (None of those that move), dtype and kind of array."""

    collective: str
    op: str | None
    dtype: Any
    kind: str


class Outcome(NamedTuple):
    """What became of a call: ``right``, ``refused`` or ``wrong``, and why.

    It is ``missing`` if the kind of array does not have the dtype.
    """

    verdict: str
    reason: str = ""


def contribution(rank: int, dtype: Any) -> NDArray[Any]:
    """Four elements of a rank, small enough for all dtypes."""
    dtype = np.dtype(dtype)
    numbers = np.array([[1, 0, 3, 2], [2, 1, 0, 2]][rank])
    if dtype.names:
        found = np.zeros(4, dtype)
        found["f0"], found["f1"] = numbers, rank
        return found
    if dtype.kind == "V" and dtype.type is np.void:
        return np.array([bytes([n] * 4) for n in numbers], dtype)
    if dtype.kind in "Mm":
        return numbers.astype("i8").astype(dtype)
    return numbers.astype(dtype)


def expected(cell: Cell, rank: int) -> Any:
    """The result of a call on two ranks; None where it has none."""
    one, other = (contribution(r, cell.dtype) for r in (0, 1))
    if cell.op is not None:
        total = EXPECTED[cell.op](one, other)
        alone = np.zeros(4, np.int64) if cell.op in PLACES else one
        alone = one.astype(bool) if cell.op in LOGICAL else alone
        return {
            "allreduce": total,
            "reduce": None if rank else total,
            "reduce_scatter": total[2 * rank : 2 * rank + 2],
            "scan": total if rank else alone,
            "exscan": alone if rank else None,
        }[cell.collective]
    halves = slice(2 * rank, 2 * rank + 2)
    return {
        "broadcast": one,
        "allgather": np.stack([one, other]),
        "alltoall": np.concatenate([one[halves], other[halves]]),
        "gather": None if rank else np.stack([one, other]),
        "scatter": one[halves],
    }[cell.collective]


def argument(rank: int, cell: Cell) -> Any:
    """What a rank passes to the call of a cell."""
    if cell.collective != "scatter":
        return KINDS[cell.kind](contribution(rank, cell.dtype))
    given = contribution(0, cell.dtype).reshape(2, 2)
    return KINDS[cell.kind](given if rank == 0 else given[0])


def call(comm: Any, cell: Cell) -> Any:
    """Make the call of a cell: its result, None where it has none."""
    array = argument(comm.rank, cell)
    method = getattr(comm, cell.collective)
    if cell.op is None:
        return method(array)
    op = np.hypot if cell.op == "hypot" else cell.op
    found = method(array, op)
    return None if cell.collective == "exscan" and comm.rank == 0 else found


def outcome(comm: Any, cell: Cell) -> Outcome:
    """Make the call of a cell, and compare its result."""
    recorder = runner_of(comm).recorder
    calls = recorder.count
    try:
        found = call(comm, cell)
    except Missing:
        return Outcome("missing")
    except (TypeError, ValueError) as error:
        is_clear = cell.collective in str(error) or "dtype" in str(error)
        if recorder.count > calls:
            return Outcome("wrong", f"refused after it began: {error}")
        return Outcome("refused" if is_clear else "wrong", str(error))
    if _is_right(found, expected(cell, comm.rank), cell):
        return Outcome("right")
    return Outcome("wrong", f"{found!r} instead of {expected(cell, comm.rank)!r}")


def _is_right(found: Any, wanted: Any, cell: Cell) -> bool:
    """Whether a result is that of NumPy, in an array of the kind of the argument."""
    if wanted is None or found is None:
        return wanted is found
    dtype = np.int64 if cell.op in PLACES else cell.dtype
    return is_of_kind(found, cell.kind) and _equal(
        values_of(found), np.asarray(wanted), dtype
    )


def _equal(found: NDArray[Any], wanted: NDArray[Any], dtype: Any) -> bool:
    """Whether a result has the dtype of the call, and the elements of NumPy's."""
    if found.dtype != np.dtype(dtype) or found.shape != wanted.shape:
        return False
    if found.dtype.kind == "V":
        return found.tobytes() == wanted.astype(found.dtype).tobytes()
    return bool((found == wanted.astype(found.dtype)).all())


def cells(
    dtypes: Sequence[Any], ops: Sequence[str] = OPS, kinds: Sequence[str] = ("array",)
) -> Iterator[Cell]:
    """The calls on some dtypes and kinds of arrays, with some ops."""
    for dtype in dtypes:
        for kind in kinds:
            for collective in MOVING:
                yield Cell(collective, None, dtype, kind)
            for collective in REDUCING:
                for op in ops:
                    yield Cell(collective, op, dtype, kind)


def outcomes(chosen: Sequence[Cell]) -> dict[Cell, Outcome]:
    """The outcomes of calls on two ranks, the worse of both."""

    def on_each_rank(comm: Any) -> list[Outcome]:
        with np.errstate(all="ignore"):
            return [outcome(comm, cell) for cell in chosen]

    both = zip(*collalgo.threads(on_each_rank, 2, timeout=60), strict=True)
    return dict(zip(chosen, map(_worse, both), strict=True))


def _worse(both: tuple[Outcome, ...]) -> Outcome:
    order = ("right", "refused", "missing", "wrong")
    verdicts = {each.verdict for each in both}
    if len(verdicts) > 1 and "wrong" not in verdicts:
        (refused,) = (each for each in both if each.verdict == "refused")
        return Outcome("wrong", f"one rank refused: {refused.reason}")
    return max(both, key=lambda each: order.index(each.verdict))
