"""Processes: ending with the parent, and exit codes."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collalgo.base import proc

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

#: The most characters of the command line of a process.
LONGEST_COMMAND = 150


def end_with_parent(parent: int | None) -> None:
    """Make the kernel kill this process when its parent ends, for any reason."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it ended before prctl
        os.kill(os.getpid(), signal.SIGKILL)


class Process(NamedTuple):
    """A process in /proc: its id, and those of its parent, group and session."""

    number: int
    parent: int
    group: int
    session: int


def processes() -> Iterator[Process]:
    """All processes that can be looked at, but those that have ended."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                yield process_of(int(folder.name))


def process_of(number: int) -> Process:
    """A process by its number.

    Raises
    ------
    OSError
        If it does not exist, or has ended and is not reaped yet.
    """
    state, *fields = proc.state(number)[:4]
    if state in "ZX":
        raise ProcessLookupError(number)
    return Process(number, *map(int, fields))


def command_line(number: int) -> str:
    """The command line of a process, or nothing if it has ended."""
    with suppress(OSError):
        return proc.command_line(number)[:LONGEST_COMMAND]
    return ""


def send_signal(process: Process, number: int) -> None:
    """Send a signal to a process; not to another one that has got its number since.

    Nothing happens if it has ended or changed its session.
    """
    with suppress(OSError):
        descriptor = os.pidfd_open(process.number)
        try:
            if process_of(process.number).session == process.session:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


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
