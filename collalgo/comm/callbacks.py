"""Callbacks at the end of calls in the background and of messages."""

import sys
from collections.abc import Callable
from typing import Any


def call_back(callback: Callable[[Any], object], work: Any) -> None:
    """Call a callback for a call that has ended; report its error, as futures do."""
    try:
        callback(work)
    except Exception:
        sys.excepthook(*sys.exc_info())
