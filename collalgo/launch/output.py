"""Output of ranks: to the terminal, and to files of each rank.

Lines of different ranks never mix. A prompt or a progress bar appears without waiting
for its newline: an unfinished line is forwarded after :data:`PARTIAL_SECONDS`, and a
part that ends in a carriage return at once. Tracebacks are shown whole, and equal ones
of several ranks once.
"""

import os
import re
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from collalgo.launch.destination import Destination, PythonDestination
from collalgo.launch.log_files import PARTIAL_BYTES, Log, LogFiles
from collalgo.launch.signals import stop_delayed
from collalgo.launch.tracebacks import HOLD_SECONDS, ShownTracebacks, Tracebacks

#: A carriage return that is not part of a line end.
RETURN = re.compile(rb"\r(?!\n)")

#: The ends of a line or of a part of one, the longest first.
LINE_ENDS = (b"\r\n", b"\n", b"\r")

#: Seconds that an unfinished line waits for its end before it is forwarded.
PARTIAL_SECONDS = 0.05

#: Limit of reads, of 64 KiB at most, from the output of an ended rank: more than a pipe
#: holds, and finite where a child of the rank goes on writing.
DRAIN_READS = 64

#: Last lines kept of each output, to show the traceback of a failed rank at the end.
KEPT_LINES = 60

#: The most bytes of them.
KEPT_BYTES = 16384


def time_stamp() -> bytes:
    """The time of day, for the beginning of a line."""
    now = time.time()
    text = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{text}.{int(now * 1000) % 1000:03d} ".encode()


def no_stamp() -> bytes:
    """Nothing, where lines begin without the time."""
    return b""


class Sinks(NamedTuple):
    """Destinations of standard output and error, files of the ranks, and the time.

    Without ``shown``, tracebacks are forwarded as other lines.
    """

    out: Destination
    err: Destination
    logs: LogFiles | None = None
    stamp: Callable[[], bytes] = no_stamp
    shown: ShownTracebacks | None = None

    def begin_stop(self, seconds: float) -> None:
        """Drop output that cannot be written, or waits some seconds for its reader."""
        for each in (self.out, self.err):
            each.patience, each.may_fail = seconds, True

    def tracebacks(self, rank: int | None) -> Tracebacks | None:
        """Takes the standard error of a rank, or lines of several with their ranks."""
        return None if self.shown is None else Tracebacks(self.shown, rank)

    def log(self, rank: int | None, name: str) -> Log | None:
        """Takes an output of a rank, or lines of several with their prefixes."""
        if self.logs is None:
            return None
        if rank is None:
            return self.logs.of_lines(name)
        return self.logs.of_rank(rank, name)


def _open_standard_files() -> None:
    """Open those that are closed, or sockets and pipes would get their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def sinks(
    folder: Path | None = None,
    *,
    timestamp: bool = False,
    by_python: bool = False,
    is_part: bool = False,
) -> Sinks:
    """The terminal, and with a folder, files of each rank in it.

    Parameters
    ----------
    folder
        The folder.
    timestamp
        Whether each line on the terminal begins with the time on this host.
    by_python
        Whether output goes through ``sys.stdout`` and ``sys.stderr``, instead of their
        descriptors.
    is_part
        Whether the output goes to another launcher, which has it all.

    Raises
    ------
    OutputError
        If the folder cannot be made or written.
    """
    _open_standard_files()
    out, err = (
        PythonDestination(stream, name)
        if by_python
        else Destination(None if stream is None else stream.buffer, name)
        for stream, name in (
            (sys.stdout, "standard output"),
            (sys.stderr, "standard error"),
        )
    )
    logs = None if folder is None else LogFiles(folder)
    shown = None if is_part else ShownTracebacks()
    return Sinks(out, err, logs, time_stamp if timestamp else no_stamp, shown)


class Stream:
    """One output of a rank or an agent, forwarded with a prefix for each line."""

    def __init__(
        self,
        pipe: IO[bytes],
        destination: Destination,
        prefix: bytes = b"",
        log: Log | None = None,
        stamp: Callable[[], bytes] = no_stamp,
        tracebacks: Tracebacks | None = None,
    ):
        self.pipe = pipe
        self._destination = destination
        self._prefix = prefix
        self._stamp = stamp
        self._log = log
        self._tracebacks = tracebacks
        self._tail = b""
        self._pending = bytearray()  # of an unfinished line
        self._due = 0.0  # when it is forwarded as it is
        self._returned = False  # whether a carriage return was forwarded last
        os.set_blocking(pipe.fileno(), False)

    @property
    def last_lines(self) -> list[bytes]:
        """The last lines of the output."""
        return self._tail.splitlines()[-KEPT_LINES:]

    def has_more(self) -> bool:
        """Whether data or the end can be read without waiting."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return bool(poll.poll(0))

    def forward(self) -> bool:
        """Forward the data that has arrived; False at the end."""
        with stop_delayed():
            try:
                data = os.read(self.pipe.fileno(), 65536)
            except BlockingIOError:
                return True
            self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        """Log output, and forward the part that is due."""
        if self._log is not None and data:
            self._log(data)
        self._tail = (self._tail + data)[-KEPT_BYTES:]
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            held = self._holds()
            self._take_lines(bytes(self._pending) + data[:end])
            self._pending.clear()
            if self._holds() and not held:
                self._due = time.monotonic() + HOLD_SECONDS
        if not self._holds():  # else others, too, wait for the traceback held first
            self._due = time.monotonic() + PARTIAL_SECONDS
        self._pending += data[end:]
        if len(self._pending) > PARTIAL_BYTES:
            self.flush()
        if not data:
            self._end_line()

    def _take_lines(self, data: bytes) -> None:
        """Forward complete lines, but those of a traceback once it is complete."""
        self._emit(data if self._tracebacks is None else self._tracebacks.take(data))

    def _holds(self) -> bool:
        """Whether lines of a traceback wait for its end."""
        return self._tracebacks is not None and self._tracebacks.holds

    def seconds_left(self) -> float | None:
        """Seconds until unfinished output is due; None without any."""
        waits = self._pending or self._holds()
        return max(self._due - time.monotonic(), 0.0) if waits else None

    def flush(self) -> None:
        """Forward an unfinished line or traceback as it is."""
        with stop_delayed():
            held = b"" if self._tracebacks is None else self._tracebacks.release()
            self._emit(held + bytes(self._pending))
            self._pending.clear()

    def _end_line(self) -> None:
        """Forward an unfinished line with a newline, at the end of the output."""
        if self._pending or self._destination.continues(self):
            self._take_lines(bytes(self._pending) + b"\n")
            self._pending.clear()
        if self._holds():
            self.flush()

    def _emit(self, data: bytes) -> None:
        """Write output with the prefix at the beginning of each line."""
        if not data:
            return
        text = b""
        continued = self._destination.continues(self)
        if continued and self._returned and data.startswith(b"\n"):  # a split line end
            text, data, continued = b"\n", data[1:], False
        if data:
            end = next(filter(data.endswith, LINE_ENDS), b"")
            prefix = self._stamp() + self._prefix
            body = data[: len(data) - len(end)].replace(b"\n", b"\n" + prefix)
            if b"\r" in body:
                body = RETURN.sub(b"\r" + prefix, body)
            begins = not continued or self._returned
            text += (prefix if begins else b"") + body + end
        self._returned = text.endswith(b"\r")
        self._destination.write(text, self, text.endswith(b"\n"))

    def rest(self) -> bytes:
        """The rest of the output of an ended process, which is not forwarded."""
        found = b""
        for _ in range(DRAIN_READS):
            if not self.has_more():
                break
            part = os.read(self.pipe.fileno(), 65536)
            found += part
            if not part:
                break
        return found

    def drain(self) -> None:
        """Forward the rest of the output of an ended process."""
        for _ in range(DRAIN_READS):
            if not self.has_more() or not self.forward():
                break
        self._end_line()
