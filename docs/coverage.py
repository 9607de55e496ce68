"""The coverage of the calls: every dtype, op, collective and kind of array.

``make docs`` writes ``docs/coverage.md`` from calls on two ranks. A call is right if
its result is that of NumPy; all other calls must raise a TypeError or a ValueError
that names the call or the dtype, on both ranks and before any message.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import collalgo
from collalgo.comm.current import runner_of
from collalgo.engine.ufuncs import UFUNCS
from docs.pages import GENERATED, write_page

PAGE = Path(__file__).parent / "coverage.md"

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
    **{name: UFUNCS[name] for name in ("sum", "prod", "min", "max")},
    "avg": lambda a, b: (a + b) // 2 if a.dtype.kind in "iu" else (a + b) / 2,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
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
    """What became of a call: ``right``, ``refused`` or ``wrong``, and why."""

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


#: By the kind of array, its form on the elements.
KINDS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "array": lambda array: array.copy(),
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "memoryview": lambda array: memoryview(array.copy()),
    "reversed": lambda array: array[..., ::-1].copy()[..., ::-1],
    "list of numbers": lambda array: array.tolist(),
    "None": lambda _: None,
}


def expected(cell: Cell, rank: int) -> Any:
    """The result of a call on two ranks; None where it has none."""
    one, other = (contribution(r, cell.dtype) for r in (0, 1))
    if cell.op is not None:
        total = EXPECTED[cell.op](one, other)
        alone = np.zeros(4, np.int64) if cell.op in PLACES else one
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


def call(comm: Any, cell: Cell) -> Any:
    """Make the call of a cell: its result, None where it has none."""
    array = KINDS[cell.kind](contribution(comm.rank, cell.dtype))
    if cell.collective == "scatter":
        given = contribution(0, cell.dtype).reshape(2, 2)
        array = KINDS[cell.kind](given if comm.rank == 0 else given[0])
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
    except (TypeError, ValueError) as error:
        is_clear = cell.collective in str(error) or "dtype" in str(error)
        if recorder.count > calls:
            return Outcome("wrong", f"refused after it began: {error}")
        return Outcome("refused" if is_clear else "wrong", str(error))
    wanted = expected(cell, comm.rank)
    if (wanted is None) != (found is None):
        return Outcome("wrong", f"{found!r} instead of {wanted!r}")
    dtype = np.int64 if cell.op in PLACES else cell.dtype
    if wanted is None or _equal(np.asarray(found), np.asarray(wanted), dtype):
        return Outcome("right")
    return Outcome("wrong", f"{found!r} instead of {wanted!r}")


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
    order = ("right", "refused", "wrong")
    verdicts = {each.verdict for each in both}
    if len(verdicts) > 1 and "wrong" not in verdicts:
        (refused,) = (each for each in both if each.verdict == "refused")
        return Outcome("wrong", f"one rank refused: {refused.reason}")
    return max(both, key=lambda each: order.index(each.verdict))


HEAD = f"""# Dtypes, ops and arrays

{GENERATED} from calls of two ranks; a test repeats some of them, `make slow` all.
In a cell with "yes" every call gave the result and the dtype of NumPy. In an empty cell
every call raised an error on both ranks that names the call or the dtype, before any
message. Nothing is converted. The results of `argmin` and `argmax` are ranks, of int64;
`minloc` and `maxloc` also take a pair of arrays. `hypot` is an example of a ufunc.

## Reductions

`allreduce`, `reduce`, `reduce_scatter`, `scan` and `exscan`; "not scan" means all but
the last two.

"""

MOVED = "\n## Calls that only move elements\n\n"

ARRAYS = """
## Kinds of arrays

Of float32, with `sum` where the call reduces. Tensors of torch, arrays on devices and
structures of arrays have pages and tests of their own ([usage](usage.md),
[devices](devices.md)).

"""


def page() -> str:
    """The page, from all calls."""
    every = list(cells([d for row in DTYPES.values() for d in row]))
    of_kinds = list(cells(["f4"], ["sum"], list(KINDS)))
    found = outcomes([*every, *of_kinds])
    return "".join((
        HEAD, _table(["dtype", *OPS], _reductions(found)),
        MOVED, _table(["dtype", *MOVING], _moves(found)),
        ARRAYS, _table(["array", *MOVING, *REDUCING], _kinds(found)),
    ))  # fmt: skip


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _reductions(found: dict[Cell, Outcome]) -> Iterator[list[str]]:
    for name, dtypes in DTYPES.items():
        yield [name, *(_of_op(found, dtypes, op) for op in OPS)]


def _of_op(found: dict[Cell, Outcome], dtypes: Sequence[Any], op: str) -> str:
    """What became of an op on some dtypes, in all collectives."""
    verdicts = [_verdict(found, dtypes, name, op) for name in REDUCING]
    if verdicts[:3] == ["right"] * 3 and verdicts[3:] == ["refused"] * 2:
        return "not scan"
    return _mark(set(verdicts))


def _moves(found: dict[Cell, Outcome]) -> Iterator[list[str]]:
    for name, dtypes in DTYPES.items():
        yield [name, *(_mark({_verdict(found, dtypes, c, None)}) for c in MOVING)]


def _kinds(found: dict[Cell, Outcome]) -> Iterator[list[str]]:
    for kind in KINDS:
        ops = [*((c, None) for c in MOVING), *((c, "sum") for c in REDUCING)]
        verdicts = [found[Cell(name, op, "f4", kind)].verdict for name, op in ops]
        yield [kind, *(_mark({verdict}) for verdict in verdicts)]


def _verdict(
    found: dict[Cell, Outcome], dtypes: Sequence[Any], collective: str, op: str | None
) -> str:
    """The verdict that is common to some dtypes."""
    verdicts = {found[Cell(collective, op, d, "array")].verdict for d in dtypes}
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def _mark(verdicts: set[str]) -> str:
    return {"right": "yes", "refused": ""}.get("/".join(verdicts), "/".join(verdicts))


def write() -> None:
    """Write the page."""
    write_page(PAGE, page())
