"""Callbacks that may run on any thread: errors are reported, not raised."""

import sys
from collections.abc import Callable
from typing import Any


def run_callback(
    callback: Callable[..., object],
    *args: Any,
    errors: type[BaseException] = BaseException,
) -> None:
    """Call a callback and report its error, if it is one of ``errors``.

    By default nothing is raised in the thread that calls it, not even SystemExit.
    """
    try:
        callback(*args)
    except errors:
        sys.excepthook(*sys.exc_info())
