"""The contexts of epochs, whose jobs end once all members have left their worlds."""

from math import inf
from time import monotonic

from collalgo.bootstrap.context import Context

#: Seconds of an epoch after which the jobs of former ones end: it takes some ms, which
#: would delay the recovery from a failure.
CALM_SECONDS = 1.0

#: With more contexts than this, former jobs end at once, without the wait.
MOST_HELD = 4


class HeldContexts:
    """The contexts of the present epoch and of former ones.

    Attributes
    ----------
    due : float
        When former ones are released; infinite without any.
    """

    def __init__(self) -> None:
        self._held: list[Context] = []
        self.due = inf

    def add(self, present: Context) -> None:
        """Hold the context of a new epoch, of which all members have connected."""
        self._held.append(present)
        self.due = monotonic() + CALM_SECONDS if len(self._held) > 1 else inf
        if len(self._held) > MOST_HELD:
            self.release()

    def release_if_calm(self) -> None:
        """At a commit: release former contexts, if the epoch has lasted for a while.

        Members that make steps of it have left all former worlds. Without commits and
        shared sums they are held until there are more than :data:`MOST_HELD`.
        """
        if monotonic() >= self.due:
            self.due = inf
            self.release()

    def release(self) -> None:
        """End the jobs of which all worlds are closed here.

        A world of survivors has the job of the world before.
        """
        closed = {each.end_job for each in self._held if each.transport.closed}
        self._held = [each for each in self._held if not each.transport.closed]
        in_use = {each.end_job for each in self._held}
        for end_job in closed - in_use:
            if end_job is not None:
                end_job()
