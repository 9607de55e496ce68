"""A call in words, for error messages, from its record."""

from collections.abc import Mapping
from typing import Any

from collalgo.algorithms.neighbors import UNIFORM
from collalgo.bootstrap.group_calls import GROUP
from collalgo.engine.dtypes import dtype_text, value_text
from collalgo.engine.pair_ops import ARG_OPS
from collalgo.engine.reduction import SPLIT_MEAN, op_text
from collalgo.schedule.collective import COLLECTIVES

#: The fields of a call that must be equal on all ranks.
COMPARED = ("collective", "count", "dtype", "op", "root", "algorithm")


#: What precedes the name of a call in the record of an exchange that the library makes
#: for it, in place of an algorithm.
EXCHANGE = "exchange of "

#: The suffix of the algorithm of a call on devices, in its record.
ON_DEVICES = "on devices"

#: The op in the record of a call that has none, and of one with a count for each rank.
NO_OP, UNEVEN = -1, -2


def call_name(call: Mapping[str, Any]) -> str:
    """The call that a user made, by its record."""
    algorithm = call.get("algorithm") or ""
    if algorithm.startswith(EXCHANGE):
        return str(algorithm.removeprefix(EXCHANGE))
    if call["collective"] == GROUP:
        return str(algorithm.partition(" ")[0])
    name = tuple(COLLECTIVES)[int(call["collective"])]
    with_counts = call["op"] == UNEVEN and UNIFORM not in algorithm
    return f"{name}v" if with_counts else name


def group_text(call: Mapping[str, Any]) -> str:
    """The ranks of a call that makes a group, by its record; empty for other calls."""
    if call["collective"] != GROUP:
        return ""
    return str(call["algorithm"].partition(" ")[2])


def elements(call: Mapping[str, Any]) -> int:
    """The elements that a user passed on a rank, by the record of the call.

    A mean of 64-bit integers is made of two sums for each.
    """
    is_split = call["op"] >= 0 and op_text(call["op"]) == SPLIT_MEAN
    count = int(call.get("passed", call["count"]))
    return count // 2 if is_split else count


def finds_rank(call: Mapping[str, Any]) -> bool:
    """Whether the elements of a call, by its record, are values with their ranks."""
    return call["op"] >= 0 and op_text(call["op"]) in ARG_OPS


def dtype_passed(call: Mapping[str, Any]) -> str:
    """The dtype of the array that a user passed, by the record of the call."""
    return (value_text if finds_rank(call) else dtype_text)(call["dtype"])


def differing_field(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The first field in which two calls of one collective differ; empty if none does.

    An op that finds ranks has dtypes of its own, so that it differs first.
    """
    if finds_rank(mine) != finds_rank(theirs):
        return "op"
    differing = (w for w in COMPARED[1:] if _compared(w, mine) != _compared(w, theirs))
    return next(differing, "")


def _compared(what: str, call: Mapping[str, Any]) -> Any:
    by_user = what == "count" and call["op"] != UNEVEN
    return elements(call) if by_user else call[what]


def call_text(
    collective: str, number: int, count: int, dtype: str, op: str | None, algorithm: str
) -> str:
    """A call in words.

    >>> call_text("allreduce", 3, 1024, "float32", "sum", "ring")
    'allreduce #3 (1024 float32, sum, ring)'
    """
    details = [] if collective == "barrier" else [f"{count} {dtype}"]
    details += [op] if op else []
    return f"{collective} #{number} ({', '.join([*details, algorithm])})"
