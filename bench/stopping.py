"""An orderly end of commands that are asked to stop."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: The signals that end a process at once, unless it handles them.
ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exits_when_stopped() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that what was started is removed.

    Ignored signals stay ignored, as SIGHUP under ``nohup``.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    handled = [number for number in ENDING if before[number] is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


def _exit(number: int, _frame: FrameType | None) -> None:
    for further in ENDING:  # which would interrupt the removal
        signal.signal(further, signal.SIG_IGN)
    sys.exit(f"ended by {signal.Signals(number).name}")
