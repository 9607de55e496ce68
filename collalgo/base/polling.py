"""Poll for a value that arrives without a notification."""

import time
from collections.abc import Callable


def awaited(
    look: Callable[[], bytes | None], timeout: float, pause: float, late: Exception
) -> bytes:
    """Poll until a value has arrived, and return it.

    Parameters
    ----------
    look
        Returns the value, or None if it is not there yet.
    timeout, pause
        Seconds to poll, and between two polls.
    late
        The exception to raise after the timeout.
    """
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise late
        time.sleep(pause)
