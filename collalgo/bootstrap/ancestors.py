"""The ancestor that has set some variables, from the environments of processes."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from collalgo.base import proc

#: The most ancestors that are examined.
MOST = 64


class Environments:
    """The environments with which this process and its ancestors began.

    Each is read once, when it is first asked for.
    """

    def __init__(self) -> None:
        self._read: list[dict[str, str]] = []
        self._unread = _environments()

    def __iter__(self) -> Iterator[dict[str, str]]:
        yield from self._read
        for environment in self._unread:
            self._read.append(environment)
            yield environment


def depth(
    names: Sequence[str],
    environment: Mapping[str, str],
    began: Iterable[Mapping[str, str]] | None = None,
) -> int:
    """The number of processes that began with these values, from this one upwards.

    0 means that this process has set one of the variables itself; 1 that its parent
    has set it for this process, as launchers do. Ancestors that cannot be read count as
    without the variables. Several questions can share their environments, ``began``.
    """
    found = 0
    for known in Environments() if began is None else began:
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
