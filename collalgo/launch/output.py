"""Output of ranks: to the terminal, and to a file for each rank."""

import os
import re
import select
import sys
from collections import deque
from pathlib import Path
from typing import IO, NamedTuple, Protocol

#: A forwarded line with the prefix of its rank.
LINE = re.compile(rb"\[(\d+)\] (.*\n)")

#: Limit of reads, of 64 KiB at most, from the output of an ended rank: more than a pipe
#: holds, and finite where a child of the rank goes on writing.
DRAIN_READS = 64

#: Last lines kept of each output, to show the traceback of a failed rank at the end.
KEPT_LINES = 60


class Sink(Protocol):
    """A destination of lines."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Sinks(NamedTuple):
    """Destinations of standard output and standard error."""

    out: Sink
    err: Sink


class LogFiles:
    """A sink that also writes the lines of each rank, without prefix, to a file.

    Parameters
    ----------
    sink
        The sink that gets all lines.
    folder
        The folder of the files, ``rank_<rank>.log``.
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
        """Flush the sink."""
        self._sink.flush()


def sinks(folder: Path | None = None) -> Sinks:
    """The terminal, and with a folder, a file for each rank in it."""
    out, err = sys.stdout.buffer, sys.stderr.buffer
    if folder is None:
        return Sinks(out, err)
    folder.mkdir(parents=True, exist_ok=True)
    return Sinks(LogFiles(out, folder), LogFiles(err, folder))


class Stream:
    """One output of a rank, forwarded line by line with a prefix."""

    def __init__(self, pipe: IO[bytes], sink: Sink, prefix: bytes = b""):
        self.pipe = pipe
        self.last_lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._sink = sink
        self._prefix = prefix
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)

    def has_more(self) -> bool:
        """Whether data or the end can be read without waiting."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return bool(poll.poll(0))

    def forward(self) -> bool:
        """Forward the data that has arrived; False at the end."""
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
        """Forward the rest of the output of an ended process."""
        for _ in range(DRAIN_READS):
            if not self.has_more() or not self.forward():
                break
