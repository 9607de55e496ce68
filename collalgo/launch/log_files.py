"""Files with the output of each rank."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from collalgo.base import owned
from collalgo.errors import OutputError
from collalgo.launch.messages import report

#: The prefix of a line: its rank.
PREFIX = re.compile(rb"\[(\d+)\] ")

#: The most bytes of an unfinished line that wait for its end.
PARTIAL_BYTES = 65536

#: The outputs of a rank, as their files are called.
STDOUT, STDERR = "stdout", "stderr"

#: Called with output as it is read.
Log: TypeAlias = Callable[[bytes], None]


class LogFiles:
    """Files with the output of each rank; output is appended.

    ``rank.3/stdout`` and ``rank.3/stderr`` are those of rank 3.

    Raises
    ------
    OutputError
        If the folder cannot be made or written.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._ended: set[Path] = set()  # files that cannot be written any more
        try:
            owned.make_folder(folder)
        except OSError as error:
            raise OutputError(
                f"--log-dir {folder}: cannot be made ({error.strerror})"
            ) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"--log-dir {folder}: you may not write there")

    def path(self, rank: int, name: str) -> Path:
        """The file of a rank for ``stdout`` or ``stderr``."""
        return self._folder / f"rank.{rank}" / name

    def write(self, rank: int, name: str, data: bytes) -> None:
        """Append output of a rank; a file that fails ends, and the job goes on."""
        path = self.path(rank, name)
        if path in self._ended:
            return
        try:
            owned.make_folder(path.parent)
            with open(path, "ab", buffering=0, opener=_without_waiting) as file:
                file.write(data)
        except OSError as error:
            self._ended.add(path)
            report(f"cannot write {path}: {error.strerror}; it ends here")

    def of_rank(self, rank: int, name: str) -> Log:
        """Takes an output of a rank."""
        return partial(self.write, rank, name)

    def of_lines(self, name: str) -> Log:
        """Takes lines with the prefixes of their ranks."""
        return _PrefixedLines(self, name).write


class _PrefixedLines:
    """Writes lines with the prefixes of their ranks to the files of these.

    A long line is written in parts, as they come.
    """

    def __init__(self, files: LogFiles, name: str):
        self._files, self._name = files, name
        self._rest, self._continues = b"", False
        self._rank: int | None = None

    def write(self, data: bytes) -> None:
        """Take the next part of the output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._write_part(line + b"\n")
            self._continues = False
        if len(self._rest) > PARTIAL_BYTES:
            self._write_part(self._rest)
            self._rest, self._continues = b"", True

    def _write_part(self, part: bytes) -> None:
        """Write a line, or a part of one, to the file of the rank that begins it."""
        if not self._continues:
            found = PREFIX.match(part)
            self._rank = None if found is None else int(found[1])
            part = part if found is None else part[found.end() :]
        if self._rank is not None:
            self._files.write(self._rank, self._name, part)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a named pipe without a reader is an error."""
    return owned.opener(path, flags | os.O_NONBLOCK)
