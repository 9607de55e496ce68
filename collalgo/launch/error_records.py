"""The errors that ranks record for their launcher, in memory that it opens for them.

It is a file without a name, so nothing is left after any death. A rank appends a line
of JSON with its key, which its launcher has given it, and its traceback.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

from collalgo.base.environment import ERRORS

#: The name of the memory.
NAME = "collalgo errors"

#: Characters of a traceback that are kept: the last ones.
MOST_CHARACTERS = 1 << 16

#: Bytes of all records that a launcher reads, at most.
MOST_BYTES = 64 << 20

#: The lines of a traceback that are shown.
SHOWN_LINES = 60


class ErrorRecords:
    """The records of the ranks of a launcher; each start has a key."""

    def __init__(self) -> None:
        self._file = os.memfd_create(NAME, os.MFD_CLOEXEC)
        self._keys = count(1)

    def next(self) -> tuple[str, dict[str, str]]:
        """The key of a rank that is started, and the variable that holds it."""
        key = str(next(self._keys))
        return key, {ERRORS.name: f"/proc/{os.getpid()}/fd/{self._file}#{key}"}

    def traceback(self, key: str) -> Sequence[str]:
        """The lines of the first error that a rank has recorded; empty without one."""
        length = min(os.fstat(self._file).st_size, MOST_BYTES)
        content = os.pread(self._file, length, 0)
        for line in content.splitlines():
            with suppress(ValueError, RecursionError):
                match json.loads(line):
                    case {"key": str(found), "traceback": str(text)} if found == key:
                        return text.splitlines()[-SHOWN_LINES:]
        return []


@cache
def of_this_launcher() -> ErrorRecords:
    """The records of all ranks that this process starts."""
    return ErrorRecords()


def record_error(text: str) -> None:
    """Record the traceback of an error, if a launcher reads it."""
    path, _, key = ERRORS.given().rpartition("#")
    if not path:
        return
    line = json.dumps({"key": key, "traceback": text[-MOST_CHARACTERS:]}) + "\n"
    with suppress(OSError):  # the launcher has ended, or is in another container
        if not str(Path(path).readlink()).startswith(f"/memfd:{NAME}"):
            return  # the number of the launcher is now that of another process
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
