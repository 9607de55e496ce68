"""Look for something that nobody announces."""

import time
from collections.abc import Callable


def awaited(
    look: Callable[[], bytes | None], timeout: float, pause: float
) -> bytes | None:
    """What is found by looking again and again; None if it is too late.

    Parameters
    ----------
    look
        Gives what is there, or None.
    timeout, pause
        Seconds to look for it, and between two looks.
    """
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found is not None or time.monotonic() > deadline:
            return found
        time.sleep(pause)
