"""The timeouts of calls."""

import math

from collalgo.base import environment

#: Seconds that a call waits for the other ranks, by default.
TIMEOUT = 300.0


def seconds(timeout: float) -> float:
    """A timeout for the engine: negative for no limit."""
    found = checked_timeout(timeout)
    return -1.0 if math.isinf(found) else found


def seconds_of_wait(timeout: float) -> float:
    """The same for a caller that waits for a call in the background; 0 only polls."""
    return 0.0 if timeout == 0 and timeout is not False else seconds(timeout)


def checked_timeout(timeout: float, name: str = "timeout") -> float:
    """A timeout in seconds; infinite for no limit.

    Raises
    ------
    TypeError, ValueError
        If it is not a number above 0.
    """
    if not hasattr(timeout, "__float__") or getattr(timeout, "ndim", 0) != 0:
        raise TypeError(
            f"{name} is {timeout!r}, of type {type(timeout).__name__}; pass seconds "
            "above 0, or math.inf"
        )
    if not timeout > 0:
        raise ValueError(f"{name} {timeout!r}: need seconds above 0, or math.inf")
    return float(timeout)


def default_timeout() -> float:
    """The timeout of new communicators: ``COLLALGO_TIMEOUT`` or :data:`TIMEOUT`."""
    given: float | None = environment.TIMEOUT.value()
    return seconds(TIMEOUT if given is None else given)
