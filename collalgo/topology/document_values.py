"""The values of topology documents: ranges of words, and numbers with parameters."""

import math
import re
from typing import Any

from collalgo.base.cpu_list import is_list
from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.values import integer, name, number

#: The attributes of devices that are numbers, whole numbers, and words.
NUMBERS = ("speed",)
INTEGERS = ("sm", "numa", "socket", "family", "model")
WORDS = ("affinity", "allowed", "cores", "busid", "gcn", "arch", "vendor", "rail")

#: The words that are lists of cores.
CORE_LISTS = ("cores", "allowed")

#: The pattern of a range in a word.
RANGE = re.compile(r"\[[0-9][0-9, -]*\]")

Parameters = dict[str, float]


def column(
    value: Any, key: str, ids: list[str], values: Parameters, what: str
) -> list[Any]:
    """The values of a key of several devices."""
    where = f"{what}: {key}"
    if value is None:
        return ["" if key in ("host", "name") else None] * len(ids)
    if key == "host":
        return _hosts(expand(name(value, where)), ids, where)
    if key in ("name", *WORDS):
        value = name(value, where)
    is_range = isinstance(value, str) and len(ids) > 1 and RANGE.search(value)
    if key in CORE_LISTS:
        _check_cores(expand(value) if is_range else [value], where)
    if is_range:
        return _spread(expand(value), ids, where)
    if key in NUMBERS:
        value = number_of(value, values, where)
    elif key in INTEGERS:
        value = whole(value, values, where)
    elif key == "ranks" and not _are_ranks(value):
        raise TopologyError(f"{where}: {value!r:.40} is not a list of ranks")
    return [_plain(value) for _ in ids]


def _check_cores(values: list[str], where: str) -> None:
    for value in values:
        if not is_list(value):
            raise TopologyError(
                f"{where}: {value[:40]!r} is not a list of cores as 0-3,8"
            )


def _are_ranks(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(rank, int) and rank >= 0 for rank in value
    )


def _plain(value: Any) -> Any:
    """A value of its own for each device, without the lines of mappings."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _hosts(hosts: list[str], ids: list[str], where: str) -> list[str]:
    """The host of each device: the first part of its id, or else spread in order."""
    parts = [id.partition("/")[0] for id in ids]
    return parts if set(parts) == set(hosts) else _spread(hosts, ids, where)


def _spread(found: list[str], ids: list[str], where: str) -> list[str]:
    """As many values as devices, each for as many devices as all others."""
    if not found or len(ids) % len(found):
        raise TopologyError(
            f"{where}: {len(found)} values cannot be spread over {len(ids)} devices"
        )
    each = len(ids) // len(found)
    return [found[i // each] for i in range(len(ids))]


def number_of(value: Any, values: Parameters, what: str) -> Any:
    """A number, a parameter or a multiple of a parameter; None if unknown."""
    if value is None or (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        return value
    text = str(value)
    found = re.fullmatch(r"(?:([0-9]{1,6}) *\* *)?([A-Za-z]\w*)", text)
    if found and found[2] in values:
        return int(found[1] or 1) * values[found[2]]
    if re.fullmatch(r"[0-9.]{1,20}[eE][+-]?[0-9]{1,3}", text):
        return number(text, what, -math.inf, math.inf)  # the element has its range
    raise TopologyError(
        f"{what}: {text[:40]!r} is neither a number nor one of the parameters "
        f"{', '.join(values) or '(none)'}"
    )


def whole(value: Any, values: Parameters, what: str) -> int:
    """A whole number, a parameter or a multiple of a parameter."""
    found = number_of(value, values, what)
    whole = isinstance(found, float) and found.is_integer()
    return integer(int(found) if whole else found, what)
