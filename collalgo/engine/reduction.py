"""The ops, with their names in NumPy, mpi4py and torch, and their kernels."""

from functools import cache
from typing import Any

import numpy as np

from collalgo._kernels.engine.reduction.reduce import (
    EXACT_SUM,
    FAMILIES,
    OPERATIONS,
    Float8Tables,
    Reduction,
)
from collalgo.base.foreign import package_of
from collalgo.engine.dtypes import FLOAT8, dtype_code, dtype_text, kind_of
from collalgo.engine.pair_ops import ARG_OPS, PAIR_OPS
from collalgo.engine.ufuncs import LOGICAL
from collalgo.engine.user_op import Op, op_name_of_code

#: The ops of the public API; ``avg`` is a sum, divided by the number of ranks.
OPS = (*OPERATIONS, "avg")

#: The ops of the sums by which the library makes a mean of integers: divided sums in 64
#: bits, and undivided sums of two parts of each integer.
WIDE_MEAN, SPLIT_MEAN = "avg of integers", "avg of 64-bit integers"

#: The ops of sums and means of floats that are rounded once, for ``INVARIANT`` calls.
INVARIANT_SUM, INVARIANT_MEAN = "invariant sum", "invariant avg"

#: The value of ``reproducible`` for bits that do not depend on the ranks.
INVARIANT = "invariant"

#: The names of ops by their numbers in the records of calls.
RECORDED_OPS = (*OPS, WIDE_MEAN, SPLIT_MEAN, INVARIANT_SUM, INVARIANT_MEAN)

#: The ops of all means.
MEANS = ("avg", WIDE_MEAN, SPLIT_MEAN, INVARIANT_MEAN)

#: The ops whose complete sums are divided by the number of ranks.
DIVIDED = ("avg", WIDE_MEAN, INVARIANT_MEAN)

#: The ops of exact sums.
EXACT_OPS = (INVARIANT_SUM, INVARIANT_MEAN)

#: The ops that are not of the public API, by the ops of which they are made.
_OF_LIBRARY = {
    WIDE_MEAN: "sum",
    SPLIT_MEAN: "sum",
    INVARIANT_SUM: EXACT_SUM,
    INVARIANT_MEAN: EXACT_SUM,
}

#: The dtypes with exact sums, and the ops that are exact for floats anyway.
EXACT_DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    *FLOAT8,
)
_ALWAYS_EXACT = ("min", "max", *LOGICAL)

_OTHER_OPS = PAIR_OPS | ARG_OPS

#: Their names by their numbers, also for a process that has not used them.
_OTHER_NAMES = {len(RECORDED_OPS) + op.code: op.name for op in _OTHER_OPS.values()}

_SYNONYMS = {
    "add": "sum",
    "multiply": "prod",
    "product": "prod",
    "minimum": "min",
    "maximum": "max",
    "average": "avg",
    "mean": "avg",
    "bitwise_and": "band",
    "bitwise_or": "bor",
    "bitwise_xor": "bxor",
    "logical_and": "land",
    "logical_or": "lor",
    "logical_xor": "lxor",
}


def op_of(op: Any, caller: str) -> str | Op:
    """The name in :data:`OPS` of an op of NumPy, mpi4py or torch, or of a string.

    Another function of NumPy or of the user is an :class:`Op`.

    Raises
    ------
    ValueError
        If there is no such op; the message names the caller and lists all ops.
    """
    if isinstance(op, Op) or (isinstance(op, str) and _is_of_library(op)):
        return op
    for word in words_of(op):
        name = _SYNONYMS.get(word, word)
        if name in OPS:
            return name
        if name in _OTHER_OPS:
            return _OTHER_OPS[name]
    if _is_function(op):
        return Op(op)
    names = ", ".join([*OPS, *_OTHER_OPS])
    if hasattr(op, "shape"):
        raise ValueError(
            f"{caller}: op is of type {type(op).__name__}; choose one of "
            f"{names}, and pass the target of the result as out="
        )
    raise ValueError(
        f"{caller}: unknown op {op!r}; choose one of {names}, or pass a function"
    )


def check_in_place(op: Any, caller: str) -> None:
    """Check that an op has its results in the arrays that it reduces.

    Raises
    ------
    ValueError
        If they are ranks, in other arrays.
    """
    found = op_of(op, caller)
    if isinstance(found, Op) and found in ARG_OPS.values():
        raise ValueError(
            f"{caller}: the results of op {found.name!r} are ranks, in new arrays, but "
            "this call reduces in place; call comm.allreduce for each array"
        )


def invariant_op(op: str | Op, dtype: np.dtype[Any], caller: str) -> str | Op:
    """The op with the same bits for any number and order of the contributions.

    Raises
    ------
    TypeError
        If the dtype has none.
    """
    exact = {"sum": INVARIANT_SUM, "avg": INVARIANT_MEAN}
    kind = kind_of(dtype)
    if op in exact and kind in EXACT_DTYPES:
        return exact[str(op)]
    if isinstance(op, str) and (dtype.kind in "biumM" or op in _ALWAYS_EXACT):
        return op
    if op in ARG_OPS.values():  # whose ranks are different, so that none is a tie
        return op
    name = op.name if isinstance(op, Op) else op
    raise TypeError(
        f"{caller}: reproducible='invariant' has no op {name!r} of {dtype}, only sums "
        "and means of floats of up to 64 bits and ops that are never rounded; pass "
        "reproducible=True for the order of the ranks"
    )


def _is_of_library(op: str) -> bool:
    """Whether an op is the very text of one that is not of the public API."""
    return any(op is own for own in _OF_LIBRARY)


def _is_function(op: Any) -> bool:
    """Whether an op is a function of the user, or an op of mpi4py made of one."""
    if package_of(op) == "mpi4py":
        return not op.is_predefined
    return callable(op) and not isinstance(op, type) and package_of(op) != "torch"


def op_code(op: str | Op) -> int:
    """The number of an op by which ranks compare it."""
    if isinstance(op, Op):
        return len(RECORDED_OPS) + op.code
    return RECORDED_OPS.index(op)


def op_text(code: int) -> str:
    """The name of an op by its number."""
    if code < len(RECORDED_OPS):
        return RECORDED_OPS[code]
    return _OTHER_NAMES.get(code) or op_name_of_code(code - len(RECORDED_OPS))


def words_of(op: Any) -> list[str]:
    """The possible names of an op: ``np.add``, ``MPI.SUM``, ``ReduceOp.SUM``, "sum"."""
    if isinstance(op, str):
        return [op.lower()]
    if isinstance(op, np.ufunc):
        return [op.__name__]
    package = package_of(op)
    if package == "mpi4py":
        return [_mpi_names().get(op.handle, "")]
    if package == "torch":
        return [str(op).rsplit(".", 1)[-1].lower()]
    return []


@cache
def _mpi_names() -> dict[int, str]:
    from mpi4py import MPI

    names = (*OPERATIONS, *PAIR_OPS)
    return {getattr(MPI, name.upper()).handle: name for name in names}


def reduction_of(dtype: np.dtype[Any], op: str | Op) -> Reduction:
    """The kernel for a dtype and an op; see :func:`reduction`."""
    return op.reduction(dtype) if isinstance(op, Op) else reduction(dtype, op)


@cache
def reduction(dtype: np.dtype[Any], op: str, variant: str | None = None) -> Reduction:
    """The kernel for a dtype and an op of :data:`OPS`.

    Raises
    ------
    TypeError
        If the dtype does not have the op, as ``band`` of floats or ``min`` of complex.
    """
    kind = kind_of(dtype)
    tables = _float8_tables(dtype) if kind in FLOAT8 else None
    family = "float8" if tables else kind
    undivided = op == "avg" and kind in ("bool", "timedelta64", "datetime64")
    if undivided or family not in FAMILIES or not dtype.isnative:
        raise TypeError(f"op {op!r} is not defined for {dtype_text(dtype_code(dtype))}")
    operation = op if op in OPERATIONS else _OF_LIBRARY.get(op, "sum")
    return Reduction(family, operation, dtype.itemsize, tables, variant)


def _float8_tables(dtype: np.dtype[Any]) -> Float8Tables:
    """Tabulate the conversions of a float8 by ``ml_dtypes``."""
    import ml_dtypes

    decode = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    upper_halves = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(invalid="ignore", over="ignore"):
        encode = upper_halves.astype(np.float32).astype(dtype).view(np.uint8)
    return Float8Tables(decode, encode)
