"""The ancestor that has set some variables, from the environments of processes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from collalgo.base import proc

#: The most ancestors that are examined.
MOST = 64


def depth(names: Sequence[str], environment: Mapping[str, str]) -> int:
    """The number of processes that began with these values, from this one upwards.

    0 means that this process has set one of the variables itself; 1 that its parent
    has set it for this process, as launchers do. Ancestors that cannot be read count as
    without the variables.
    """
    found = 0
    for known in _environments():
        if any(known.get(name) != environment[name] for name in names):
            break
        found += 1
    return found


def start_time(process: int) -> str | None:
    """The start time of a process: a later one may have its number."""
    try:
        return proc.state(process)[19]
    except OSError:
        return None


def _environments() -> Iterator[dict[str, str]]:
    """The environments with which this process and its ancestors began."""
    with suppress(OSError):
        for process in islice(proc.ancestors(os.getpid()), MOST):
            yield proc.environment(process)
