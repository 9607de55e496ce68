"""A warning while a process waits for others that are late to join."""

import math
import time
from collections.abc import Callable, Sequence

#: Seconds of a wait before the warning.
NOTICE_SECONDS = 5.0


class LateRanks:
    """Warns once, if ranks have not joined after some seconds, which ones.

    Parameters
    ----------
    me
        The rank that waits.
    size
        The number of ranks that join.
    deadline
        The end of the wait, by the monotonic clock.
    """

    def __init__(self, me: int, size: int, deadline: float):
        self._me, self._size, self._deadline = me, size, deadline
        self._due = time.monotonic() + NOTICE_SECONDS

    def check(self, missing: Callable[[], Sequence[int]]) -> None:
        """Warn if it is time to."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = math.inf
        from logging import getLogger  # 2 ms, which few processes need

        getLogger("collalgo").warning(
            "rank %d waits for ranks %s of %d to join, for at most %.0f s more",
            self._me,
            list(missing()),
            self._size,
            max(self._deadline - now, 0),
        )
