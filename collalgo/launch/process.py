"""Processes: their end with their parent's, and how they ended."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int | None) -> None:
    """Let this process be killed when its parent ends, however that happens."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it has ended just before
        os.kill(os.getpid(), signal.SIGKILL)


def exit_reason(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def exit_code(code: int) -> int:
    """What a launcher ends with for a process that has ended so, as shells have it."""
    return code if code > 0 else 128 - code
