"""Ranks of this host that have ended, as their launcher records them.

It appends a line of JSON for each to its memory of errors, in which a rank that waits
for others to join reads it.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from collalgo.base import proc
from collalgo.base.environment import ERRORS
from collalgo.bootstrap.liveness_check import LIVENESS_SECONDS, ProcessGone

#: The name of the memory.
NAME = "collalgo errors"

#: The reason of a rank that has ended.
ENDED = "it ended (exit code 0) before it joined; every rank must call collalgo.init"

#: The first word of ``sys.argv`` of a program that Python reads from standard input.
FROM_INPUT = ("", "-")


def record_end(memory: int, rank: int, process: int) -> None:
    """Record that the process of a rank has ended with exit code 0."""
    line = json.dumps({"ended": rank, "process": process}) + "\n"
    with suppress(OSError):  # the wait of the others is only longer
        os.write(memory, line.encode())


class EndedRanks:
    """Detects the end of another rank, with exit code 0, before it has joined.

    Parameters
    ----------
    me
        The rank that waits.
    """

    def __init__(self, me: int):
        self._me, self._path = me, Path(ERRORS.given().rpartition("#")[0])
        self._due = time.monotonic() + LIVENESS_SECONDS
        self._read = 0  # bytes

    def check(self) -> None:
        """Raise ProcessGone if one has ended."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LIVENESS_SECONDS
        for rank, process in self._records():
            if rank != self._me and not _goes_on(process):
                raise ProcessGone(self._me, rank, ENDED + _of_input())

    def _records(self) -> Iterator[tuple[int, int]]:
        """The ranks that have ended since the last time, and their processes."""
        for line in self._lines():
            with suppress(ValueError, RecursionError):
                match json.loads(line):
                    case {"ended": int(rank), "process": int(process)}:
                        yield rank, process

    def _lines(self) -> list[bytes]:
        """The lines that are complete since the last time."""
        content = b""
        with suppress(OSError):  # the launcher has ended, or is in another container
            if str(self._path.readlink()).startswith(f"/memfd:{NAME}"):
                with self._path.open("rb") as memory:
                    memory.seek(self._read)
                    content = memory.read()
        complete, newline, _ = content.rpartition(b"\n")
        self._read += len(complete + newline)
        return complete.splitlines()


def _goes_on(session: int) -> bool:
    """Whether processes of a rank go on that it has left in the background."""
    with os.scandir("/proc") as entries:
        numbers = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    for number in numbers:
        with suppress(OSError):
            state, _, _, its_session = proc.state(number)[:4]
            if int(its_session) == session and state not in "ZX":
                return True
    return False


def _of_input() -> str:
    """The advice for a program that Python reads from standard input."""
    if sys.argv[:1] and sys.argv[0] in FROM_INPUT:
        return "; standard input goes to rank 0 only, so pass the program as a file"
    return ""
