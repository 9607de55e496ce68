"""Callbacks at the end of calls in the background and of messages."""

import sys
from collections.abc import Callable
from typing import Any


def run_callback(callback: Callable[[Any], object], work: Any) -> None:
    """Call a callback for a call that has ended; report what it raises.

    It may run on any thread, so nothing is raised there, not even SystemExit.
    """
    try:
        callback(work)
    except BaseException:
        sys.excepthook(*sys.exc_info())
