"""Processes as the kernel shows them in ``/proc``.

The name of a process is cut at 15 bytes, also within a letter, and may hold anything.
All but :func:`ancestors` raise OSError if there is no such process, or this one may not
look at it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def state(process: int) -> list[str]:
    """The fields of a process after its name: its state, its parent and so on."""
    line = Path(f"/proc/{process}/stat").read_bytes()
    return line.rpartition(b")")[2].decode().split()


def status(process: int, field: str) -> str:
    """The value of a field by its name; empty if it is missing."""
    start = f"\n{field}:".encode()
    found = Path(f"/proc/{process}/status").read_bytes().partition(start)[2]
    return found.partition(b"\n")[0].decode().strip()


def environment(process: int) -> dict[str, str]:
    """The environment with which a process began, as text like ``os.environ``."""
    entries = os.fsdecode(Path(f"/proc/{process}/environ").read_bytes()).split("\0")
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, _, value in pairs}


def command_line(process: int) -> str:
    """The words of the command line of a process."""
    words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    return " ".join(word.decode(errors="replace") for word in words).strip()


def ancestors(process: int) -> Iterator[int]:
    """A process, its parent, and so on, up to one that cannot be read."""
    with suppress(OSError):
        while process:
            yield process
            process = int(state(process)[1])
