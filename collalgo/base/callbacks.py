"""Callbacks that may run on any thread: errors are reported, not raised."""

import sys
from collections.abc import Callable
from typing import Any


def run_callback(callback: Callable[..., object], *args: Any) -> None:
    """Call a callback and report its error; KeyboardInterrupt and others are raised."""
    try:
        callback(*args)
    except Exception:
        sys.excepthook(*sys.exc_info())
