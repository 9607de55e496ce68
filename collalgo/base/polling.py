"""Look for something that nobody announces."""

import time
from collections.abc import Callable


def awaited(
    look: Callable[[], bytes | None], timeout: float, pause: float, late: Exception
) -> bytes:
    """What is found by looking again and again.

    Parameters
    ----------
    look
        Gives what is there, or None.
    timeout, pause
        Seconds to look for it, and between two looks.
    late
        What is raised if it is not found in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise late
        time.sleep(pause)
