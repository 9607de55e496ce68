"""Requests that are made again for as long as a store does not answer."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from collalgo.bootstrap.store.protocol import (
    Denied,
    Fenced,
    LeaseExpired,
    NotSet,
    StoreError,
)

T = TypeVar("T")

#: Seconds between two attempts.
PAUSE = 0.1

#: The answers of a store that has refused a request; another attempt has the same.
REFUSALS = Denied, Fenced, LeaseExpired, NotSet


def repeated(
    request: Callable[[], T],
    seconds: float,
    store: str,
    check: Callable[[], None] = lambda: None,
    failed: Callable[[Exception, float], None] = lambda _error, _waited: None,
) -> T:
    """Make a request, and again if it fails: a store may come back.

    An etcd is back once its members have a leader, and an embedded store once it is
    reached again.

    Parameters
    ----------
    request
        The request. It must have the same effect if it is carried out twice.
    seconds
        Seconds after which no further attempt is made.
    store
        The name of the store in errors.
    check
        Called before each attempt; raises if the request has become useless.
    failed
        Called with the error of each attempt, and the seconds since the first began.

    Raises
    ------
    StoreError
        If the store refuses the request, or has not answered in time.
    """
    began = monotonic()
    while True:
        check()
        try:
            return request()
        except REFUSALS:
            raise
        except (StoreError, OSError) as error:
            waited = monotonic() - began
            failed(error, waited)
            if waited >= seconds:
                raise StoreError(
                    f"{store} has not answered within {seconds:g} s: {error}"
                ) from None
        sleep(PAUSE)
