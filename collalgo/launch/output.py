"""The output of ranks: to the terminal, and to a file for each rank."""

import os
import re
import select
import sys
from collections import deque
from pathlib import Path
from typing import IO, NamedTuple, Protocol

#: A line as it is passed on, with the rank in front.
LINE = re.compile(rb"\[(\d+)\] (.*\n)")

#: Reads, of 64 KiB at most, from the output of a rank that has ended: more than a pipe
#: holds, but no end where a child of the rank goes on writing.
DRAINED = 64

#: Lines of standard error kept of each rank, to show the traceback again at the end.
KEPT_LINES = 60


class Sink(Protocol):
    """What lines are written to."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Sinks(NamedTuple):
    """Where standard output and standard error go."""

    out: Sink
    err: Sink


class Logged:
    """A sink whose lines are kept as well, without the rank in front, in its file.

    Parameters
    ----------
    sink
        Where they go too.
    folder
        Where the files are.
    """

    def __init__(self, sink: IO[bytes], folder: Path):
        self._sink = sink
        self._folder = folder

    def write(self, data: bytes, /) -> None:
        """Write whole lines."""
        self._sink.write(data)
        for number, line in LINE.findall(data):
            with (self._folder / f"rank_{int(number)}.log").open("ab") as file:
                file.write(line)

    def flush(self) -> None:
        """Let what was written be seen."""
        self._sink.flush()


def sinks(folder: Path | None = None) -> Sinks:
    """The terminal, and if there is a folder, files of their own for the ranks."""
    out, err = sys.stdout.buffer, sys.stderr.buffer
    if folder is None:
        return Sinks(out, err)
    folder.mkdir(parents=True, exist_ok=True)
    return Sinks(Logged(out, folder), Logged(err, folder))


class Stream:
    """One output of a rank, passed on line by line with the rank in front."""

    def __init__(self, pipe: IO[bytes], sink: Sink, prefix: bytes = b""):
        self.pipe = pipe
        self.last_lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._sink = sink
        self._prefix = prefix
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)

    def has_more(self) -> bool:
        """Whether anything, be it the end, can be read at once."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return bool(poll.poll(0))

    def forward(self) -> bool:
        """Pass on what has come; False at the end."""
        try:
            data = os.read(self.pipe.fileno(), 65536)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self.last_lines.extend(lines)
            self._sink.write(b"".join(self._prefix + line + b"\n" for line in lines))
            self._sink.flush()
        return bool(data)

    def drain(self) -> None:
        """Pass on what an ended process has still written; its children may go on."""
        for _ in range(DRAINED):
            if not self.has_more() or not self.forward():
                break
