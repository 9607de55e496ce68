"""Leases: keys that are deleted unless their holder renews them in time."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from collalgo.base.threads import start
from collalgo.errors import BootstrapError

#: A lease is renewed so often within its time to live.
RENEWALS = 3

#: Seconds between two attempts to renew a lease that may have ended.
RETRY_SECONDS = 0.1


class Lease:
    """A lease of a store, renewed by a thread until it ends or is revoked.

    Parameters
    ----------
    identifier
        What the store calls it.
    seconds
        Its time to live.
    requested
        When it was requested, by the monotonic clock.
    renew
        Renews it and returns whether the store still knows it; BootstrapError if the
        store does not answer.
    end
        Ends it at the store.

    Attributes
    ----------
    identifier : int
        What the store calls it.
    seconds : float
        Its time to live as granted.
    """

    def __init__(
        self,
        identifier: int,
        seconds: float,
        requested: float,
        renew: Callable[[int], bool],
        end: Callable[[int], None],
    ):
        self.identifier = identifier
        self.seconds = seconds
        self._expires = requested + seconds
        self._renew, self._end = renew, end
        self._stopped = Event()
        start(Thread(target=self._keep, name="collalgo lease", daemon=True))

    def remaining(self) -> float:
        """Seconds for which the store certainly keeps it; 0 once it has ended.

        Counted from the moment before the last renewal was sent, so that a holder which
        stops at 0 stops before its keys are given to another. A store that was not
        reachable may still keep the lease; a later renewal then makes it certain again.
        """
        left = self._expires - monotonic()
        return 0.0 if self.ended else max(left, 0.0)

    @property
    def ended(self) -> bool:
        """Whether it has certainly ended, or is no longer renewed."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop renewing it."""
        self._stopped.set()

    def revoke(self) -> None:
        """End it now, with all its keys."""
        self.stop()
        with suppress(BootstrapError):
            self._end(self.identifier)

    def _keep(self) -> None:
        pause = self.seconds / RENEWALS
        while not self._stopped.wait(pause if self.remaining() else RETRY_SECONDS):
            sent = monotonic()
            with suppress(BootstrapError):
                if not self._renew(self.identifier):
                    break
                self._expires = sent + self.seconds
        self.stop()
