"""The destination of the output of all ranks."""

import codecs
import math
import os
import select
import stat
import time
from contextlib import suppress
from typing import IO

from collalgo.errors import OutputError
from collalgo.launch.signals import check_stop

#: The most bytes of a write to a file; pipes and terminals take PIPE_BUF at least.
PIECE = 1 << 20


class Destination:
    """Standard output or error of the launcher, shared by all ranks.

    Parameters
    ----------
    file
        The file, or None if it was closed when the launcher started.
    name
        Its name in errors.
    """

    def __init__(self, file: IO[bytes] | None, name: str):
        self.patience = math.inf  # seconds that the reader may take no output
        self.may_fail = False
        self._descriptor = None if file is None else file.fileno()
        self._name = name
        self._owner: object = None  # of the unfinished line, if there is one
        self._poll = select.poll()
        self._room = PIECE
        if file is not None:
            file.flush()
            self._poll.register(file, select.POLLOUT)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._room = select.PIPE_BUF

    def continues(self, stream: object) -> bool:
        """Whether the unfinished line is of this stream."""
        return self._owner is stream

    def write(self, data: bytes, stream: object, finished: bool) -> None:
        """Write output of a stream, ``finished`` if a line ends with it.

        Raises
        ------
        OutputError
            If it cannot be written, as on a full disk, unless it may fail.
        """
        if self._owner not in (None, stream):
            data = b"\n" + data
        self._owner = None if finished else stream
        try:
            self._write_all(data)
        except OSError as error:
            self._discard()
            if self.may_fail:
                return
            if isinstance(error, BrokenPipeError):  # its reader has ended
                raise
            raise OutputError(
                f"cannot write to {self._name}: {error.strerror}; the job was stopped"
            ) from None

    def _write_all(self, data: bytes) -> None:
        """Write in parts for which there is room, so that no signal is kept waiting."""
        rest = memoryview(data)
        while rest and self._descriptor is not None:
            if not self._wait_for_room():
                self._discard()
                return
            with suppress(BlockingIOError):
                rest = rest[os.write(self._descriptor, self._part(rest)) :]

    def _part(self, rest: memoryview) -> memoryview:
        """What is written at once: whole lines, unless one is longer than the room."""
        part = rest[: self._room]
        if len(part) == len(rest):
            return part
        return part[: part.tobytes().rfind(b"\n") + 1 or len(part)]

    def _wait_for_room(self) -> bool:
        """Wait until the reader accepts more; False on a timeout."""
        begin = time.monotonic()
        while not self._poll.poll(100):
            check_stop()
            if time.monotonic() - begin > self.patience:
                return False
        return True

    def _discard(self) -> None:
        """Discard all further output, also the buffers of Python."""
        if self._descriptor is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._descriptor)
            os.close(nowhere)
        self._descriptor = None

    def end_line(self) -> None:
        """End an unfinished line, before a message of the launcher."""
        if self._owner is not None:
            self.write(b"", None, True)


class PythonDestination(Destination):
    """A file of Python, as ``sys.stdout`` of a notebook, which may have no descriptor.

    Parameters
    ----------
    file
        The file; None for none.
    name
        Its name in errors.
    """

    def __init__(self, file: IO[str] | None, name: str):
        super().__init__(None, name)
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _write_all(self, data: bytes) -> None:
        if self._file is None:
            return
        text = self._decoder.decode(data)
        encoding = getattr(self._file, "encoding", None) or "utf-8"
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        self._file.flush()

    def _discard(self) -> None:
        self._file = None
