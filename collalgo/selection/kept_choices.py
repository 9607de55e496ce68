"""Choices kept on disk, so that the first call of a later run prices nothing.

A choice depends on the code that prices, on the candidates, and on the figures of the
host or of the topology. All of these are in its key, so that it is never out of date.
"""

import json
import os
import platform
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

from collalgo._version import __version__
from collalgo.algorithms.catalogue import Algorithm
from collalgo.base import disk_cache
from collalgo.errors import CollalgoError
from collalgo.selection.prices import Break, Choices, Priced

#: The subfolder, and the format of its files.
KIND, FORMAT = "choices", "choices/1"

#: The folders of the code that prices depend on.
CODE = (
    *("algorithms", "base", "cost", "engine", "engine/plan", "schedule", "selection"),
    *("selection/policies", "synthesis", "topology"),
    *("_kernels/cost", "_kernels/schedule", "_kernels/synthesis"),
)

#: Gives the candidate of an algorithm in an order of ranks, to be priced when its
#: price is read; raises ValueError for an order that the ranks do not have.
Revive = Callable[[Algorithm, str], Priced]

#: Gives the row of a name of a collective.
Find = Callable[[str, str], Algorithm]


def kept(
    ranks: str,
    rows: Sequence[Algorithm],
    lookup: Find,
    revive: Revive,
    compute: Callable[[], Choices],
) -> Choices:
    """The choices among some rows: from disk, or else computed and kept there.

    Choices among rows of users are always computed, since their code may change.

    Parameters
    ----------
    ranks
        All that prices depend on, beside the rows and the code.
    rows
        The algorithms of a collective that can run.
    lookup
        Gives the row of a name.
    revive
        Gives the candidate of a row in an order of ranks.
    compute
        Computes the choices.
    """
    if not rows or any(row.unproved for row in rows):
        return compute()
    names = [row.name for row in rows]
    key = repr((FORMAT, _code(), rows[0].collective, names, ranks))
    text = disk_cache.recall(KIND, key)
    found = text and _read(text, rows, lookup, revive)
    if not found:
        found = compute()
        disk_cache.keep(KIND, key, _written(found))
    return found


def _written(choices: Choices) -> str:
    """Choices as text."""
    lines = [(at, one.row.name, one.order) for at, one in choices.breaks]
    return json.dumps(lines)


def _read(
    text: str, rows: Sequence[Algorithm], lookup: Find, revive: Revive
) -> Choices | None:
    """The choices of a text; None if they are not of these rows."""
    by_name = {row.name: row for row in rows}
    breaks = []
    try:
        for at, name, order in json.loads(text):
            row = by_name.get(name) or lookup(rows[0].collective, name)
            breaks.append(Break(float(at), revive(row, str(order))))
    except (CollalgoError, TypeError, ValueError, RecursionError):
        return None
    borders = [one.nbytes for one in breaks]
    is_whole = borders[:1] == [0.0] and borders == sorted(borders)
    return Choices(breaks) if is_whole else None


@cache
def _code() -> str:
    """The identity of the code that makes prices."""
    package = str(Path(__file__).parents[1])
    found = __version__, np.__version__, platform.machine(), package, dates_of_code()
    return repr(found)


@cache
def dates_of_code() -> int:
    """A number of 48 bits for the dates of the files with the code that makes prices.

    Times and sizes of files show a change of code, as they do to Python itself, which
    runs a compiled file for as long as those of its source stay the same.
    """
    if _agreed:
        return _agreed[-1]
    package, found = Path(__file__).parents[1], []
    for folder in CODE:
        with os.scandir(package / folder) as entries:
            found += sorted(filter(None, map(_dated, entries)))
    digest = blake2b(repr(found).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "little")


#: The dates that rank 0 has found, so that not every rank of a host looks.
_agreed: list[int] = []


def agree_on_dates(number: int) -> None:
    """Take the dates of the code from another rank of this host."""
    _agreed[:] = [number]


def _dated(entry: "os.DirEntry[str]") -> str:
    """The name of a file of code with its size and time of change, else nothing."""
    if not entry.name.endswith((".py", ".so", ".yaml")):
        return ""
    known = entry.stat()
    return f"{entry.path} {known.st_size} {known.st_mtime_ns}"
