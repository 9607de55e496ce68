"""Processes: ending with the parent, and exit codes."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int | None) -> None:
    """Make the kernel kill this process when its parent ends, for any reason."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it ended before prctl
        os.kill(os.getpid(), signal.SIGKILL)


def processes() -> Iterator[tuple[int, int, int]]:
    """All processes that can be looked at: number, parent and process group."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(fields[1]), int(fields[2])


def exit_reason(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"was killed by {_signal_name(-code)}"
    return f"ended with exit code {code}"


def _signal_name(number: int) -> str:
    """The name of a signal; real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_code(code: int) -> int:
    """The exit code of a launcher for that of a process, by the rule of shells."""
    return code if code > 0 else 128 - code
