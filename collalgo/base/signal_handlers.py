"""The signals that a process handles."""

import faulthandler
import os
import signal

from collalgo.base import proc

#: The descriptor of the error output.
ERROR_OUTPUT = 2


def catches(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal, of Python or of compiled code.

    Raises
    ------
    OSError
        If there is no such process.
    """
    return bool(int(proc.status(process, "SigCgt") or "0", 16) >> (number - 1) & 1)


def dump_stacks_on_quit() -> None:
    """Let SIGQUIT write the stacks of all threads before it ends the process.

    A handler of the program remains, and so does a signal that is ignored.
    """
    handler = signal.getsignal(signal.SIGQUIT)
    if handler == signal.SIG_DFL and not catches(os.getpid(), signal.SIGQUIT):
        faulthandler.register(signal.SIGQUIT, file=ERROR_OUTPUT, chain=True)
