"""The ancestor that has set some variables, from the environments of processes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: The most ancestors that are examined.
MOST = 64


def depth(names: Sequence[str], environment: Mapping[str, str]) -> int:
    """The number of processes that began with these values, from this one upwards.

    0 means that this process has set one of the variables itself; 1 that its parent
    has set it for this process, as launchers do. Ancestors that cannot be read count as
    without the variables.
    """
    wanted = {name.encode(): environment[name].encode() for name in names}
    found = 0
    for known in _environments():
        if any(known.get(name) != value for name, value in wanted.items()):
            break
        found += 1
    return found


def start_time(process: int) -> str | None:
    """The start time of a process: a later one may have its number."""
    fields = _fields(process)
    return fields[19] if fields else None


def _environments() -> Iterator[dict[bytes, bytes]]:
    """The environments with which this process and its ancestors began."""
    process = os.getpid()
    for _ in range(MOST):
        try:
            entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            return
        pairs = (entry.partition(b"=") for entry in entries)
        yield {name: value for name, _, value in pairs}
        fields = _fields(process)
        if not fields:
            return
        process = int(fields[1])


def _fields(process: int) -> list[str]:
    """The state of a process, as in ``/proc``, from its third field on."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
