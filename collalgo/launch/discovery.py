"""The hosts of a job as a script of the user prints them, again and again."""

import errno
import os
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from collalgo.errors import BootstrapError
from collalgo.launch.hosts import LARGEST, Host, hosts_of_text
from collalgo.launch.messages import report
from collalgo.launch.process import end_with_parent, exit_reason
from collalgo.launch.signals import stop_delayed

#: Seconds between the end of a call of the script and the next one.
PAUSE = 1.0

#: Seconds that a call may take.
CALL_SECONDS = 10.0

#: Seconds between two polls of a call.
POLL_SECONDS = 0.05


class Discovery:
    """Calls a script that prints the hosts of a job, one per line, as in a host file.

    The hosts of the last call that has succeeded count; why one has failed is reported
    once.

    Parameters
    ----------
    script
        The script.
    slots
        The number of ranks of a host for which the script prints none.
    """

    def __init__(self, script: Path, slots: int):
        self._script, self._slots = script, slots
        self._call: subprocess.Popen[bytes] | None = None
        self._printed = b""
        self._next = self._limit = 0.0
        self._told = ""
        self.problem = f"{script} has not printed any hosts yet"

    def seconds(self) -> float:
        """Seconds to the next look."""
        return POLL_SECONDS if self._call else max(self._next - time.monotonic(), 0.0)

    def look(self) -> list[Host] | None:
        """The hosts, if a call has printed some since the last look."""
        try:
            if self._call is not None:
                return self._ended(self._call)
            if time.monotonic() >= self._next:
                self._begin()
        except (BootstrapError, OSError) as error:
            self.close()
            self._tell(f"{self._script} prints no hosts: {_reason(error)}")
        return None

    def first(self) -> list[Host]:
        """The hosts of the first call.

        Raises
        ------
        BootstrapError
            If it fails.
        """
        while (found := self.look()) is None:
            if self._told:
                raise BootstrapError(self._told)
            time.sleep(self.seconds())
        return found

    def close(self) -> None:
        """End a call that runs."""
        if self._call is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._call.pid, 9)
            self._call.wait()
            assert self._call.stdout is not None
            self._call.stdout.close()
        self._call, self._next = None, time.monotonic() + PAUSE

    def _begin(self) -> None:
        self._printed, self._limit = b"", time.monotonic() + CALL_SECONDS
        self._next = time.monotonic() + PAUSE
        with stop_delayed():  # the process is closed
            self._call = subprocess.Popen(
                [self._script.absolute()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 (takes no lock)
            )
        assert self._call.stdout is not None
        os.set_blocking(self._call.stdout.fileno(), False)

    def _ended(self, call: subprocess.Popen[bytes]) -> list[Host] | None:
        """The hosts of a call, if it has ended; raises BootstrapError if it failed."""
        assert call.stdout is not None
        code = call.poll()  # before the last of its output is read
        with suppress(BlockingIOError):
            while part := os.read(call.stdout.fileno(), 1 << 16):
                self._printed += part
                if len(self._printed) > LARGEST:
                    raise BootstrapError(f"it has printed more than {LARGEST} bytes")
        if code is None and time.monotonic() > self._limit:
            raise BootstrapError(f"it has not ended in {CALL_SECONDS:g} s")
        if code is None:
            return None
        self.close()
        if code:
            raise BootstrapError(f"it {exit_reason(code)}")
        found = self._hosts()
        self._told = self.problem = ""
        return found

    def _hosts(self) -> list[Host]:
        """The hosts that a call has printed."""
        try:
            text = self._printed.decode()
        except UnicodeDecodeError:
            raise BootstrapError(f"{self._printed[:40]!r} is not text") from None
        found = hosts_of_text(text, "its output", self._slots)
        if not found:
            raise BootstrapError("it has printed nothing")
        names = [host.name for host in found]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise BootstrapError(f"host {twice} is printed twice; add its slots up")
        return found

    def _tell(self, problem: str) -> None:
        """Report a problem, unless it was reported last."""
        self.problem = problem
        if problem != self._told:
            self._told = problem
            report(f"{problem}; the hosts stay as they are")


def _reason(error: BootstrapError | OSError) -> str:
    """The error of a script that cannot be called, or of its output."""
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "the system cannot run it; its first line must be as #!/bin/sh"
    return getattr(error, "strerror", None) or str(error)
