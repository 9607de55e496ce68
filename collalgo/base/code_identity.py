"""The identity of the code that makes prices and plans, for results kept on disk."""

import os
import platform
from functools import cache

import numpy as np

from collalgo._version import __version__
from collalgo.base.digest import blake2b

#: The folders of the code that prices and plans depend on.
CODE = (
    *("algorithms", "base", "cost", "engine", "engine/plan", "schedule", "selection"),
    *("selection/policies", "synthesis", "topology"),
    *("_kernels/cost", "_kernels/schedule", "_kernels/synthesis"),
)


#: The folder of the package.
PACKAGE = __file__.rpartition("/base/")[0]


@cache
def of_code() -> str:
    """The identity of the code that makes prices and plans."""
    found = __version__, np.__version__, platform.machine(), PACKAGE, dates_of_code()
    return repr(found)


@cache
def dates_of_code() -> int:
    """A number of 48 bits for the dates of the files of that code.

    Times and sizes of files show a change of code, as they do to Python itself, which
    runs a compiled file for as long as those of its source stay the same.
    """
    if _agreed:
        return _agreed[-1]
    found: list[str] = []
    for folder in CODE:
        with os.scandir(f"{PACKAGE}/{folder}") as entries:
            found += sorted(filter(None, map(_dated, entries)))
    digest = blake2b(repr(found).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "little")


#: The dates that rank 0 has found, so that one rank of a host reads them.
_agreed: list[int] = []


def agree_on_dates(number: int) -> None:
    """Take the dates of the code from another rank of this host."""
    _agreed[:] = [number]


def _dated(entry: "os.DirEntry[str]") -> str:
    """The name of a file of code with its size and time of change, else nothing."""
    if not entry.name.endswith((".py", ".so", ".yaml")):
        return ""
    try:
        known = entry.stat()
    except OSError:  # a link to nothing, as the lock of an editor, or removed since
        return ""
    return f"{entry.path} {known.st_size} {known.st_mtime_ns}"
