"""The errors that ranks record for their launcher, in memory that it opens for them.

It is a file without a name, so nothing is left after any death. A rank appends a line
of JSON with its key, which its launcher has given it, and its traceback.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from collalgo.base.environment import ERRORS
from collalgo.bootstrap.ended_ranks import NAME, record_end

#: Characters of a traceback that are kept: the last ones.
MOST_CHARACTERS = 1 << 16

#: Bytes of all records that a launcher reads, at most.
MOST_BYTES = 64 << 20

#: The lines of a traceback that are shown.
SHOWN_LINES = 60


#: The keys of the starts of this process. None is used twice, as a process that a rank
#: has left may outlive its launch.
_KEYS = count(1)


class ErrorRecords:
    """The records of the ranks of a launch; each start has a key."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._read = 0  # bytes
        self._found: dict[str, Sequence[str]] = {}

    def next(self) -> tuple[str, dict[str, str]]:
        """The key of a rank that is started, and the variable that holds it."""
        if self._file is None:
            self._file = os.memfd_create(NAME, os.MFD_CLOEXEC)
            fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        key = str(next(_KEYS))
        return key, {ERRORS.name: f"/proc/{os.getpid()}/fd/{self._file}#{key}"}

    def note_end(self, rank: int, process: int) -> None:
        """Tell ranks that wait for a rank that it has ended with exit code 0."""
        if self._file is not None:
            record_end(self._file, rank, process)

    def traceback(self, key: str) -> Sequence[str]:
        """The lines of the first error that a rank has recorded; empty without one."""
        self._read_further()
        return self._found.get(key, [])

    def close(self) -> None:
        """Release the memory."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _read_further(self) -> None:
        """Read the records that are complete since the last time."""
        if self._file is None:
            return
        length = min(os.fstat(self._file).st_size, MOST_BYTES) - self._read
        content = os.pread(self._file, length, self._read)
        complete, newline, _ = content.rpartition(b"\n")
        self._read += len(complete + newline)
        for line in complete.splitlines():
            with suppress(ValueError, RecursionError):
                match json.loads(line):
                    case {"key": str(key), "traceback": str(text)}:
                        lines = text.splitlines()[-SHOWN_LINES:]
                        self._found.setdefault(key, lines)


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
