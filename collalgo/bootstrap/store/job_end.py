"""The end of an elastic job in its store: no further epoch begins."""

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace

from collalgo.bootstrap.store.at_url import StorePlace, running_store
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.job_keys import CLOSED, ENDING, ROUND
from collalgo.bootstrap.store.protocol import ABSENT, KeyValueStore
from collalgo.errors import BootstrapError

#: The version of the documents in the store; another one is refused.
FORMAT = 1

#: Seconds in which the store is reached, which is in this process.
SECONDS = 5.0


def end_document(reason: str) -> bytes:
    """The document that closes a job, or that says that its end has begun."""
    return json.dumps({"format": FORMAT, "reason": reason}).encode()


def close_job(host: str, port: int, secret: bytes, reason: str) -> None:
    """Close the job whose store is at a port: members that wait for others end.

    The present epoch may continue to its end. Without a further descriptor for the
    connection nothing is done.
    """
    _note(CLOSED, reason, lambda: Client([host], port, secret, SECONDS))


def begin_end(place: StorePlace, reason: str) -> None:
    """Note that a rank has ended with exit code 0: members that are too few end soon.

    Nothing is done if the store is not reached at once, as it has ended, or if another
    package provides it.
    """
    _note(ENDING, reason, lambda: running_store(replace(place, seconds=0.0)))


def _note(key: str, reason: str, connect: Callable[[], KeyValueStore]) -> None:
    """Set a key, unless it is set or the store is not reached."""
    with (
        suppress(BootstrapError, OSError, ValueError),
        closing(connect()) as store,
    ):
        store.compare_set(key, end_document(reason), ABSENT)


def last_members(place: StorePlace) -> frozenset[str] | None:
    """The names of the members of the last epoch of a job that is closed.

    None if it is open, or has had no epoch, or its store is not reached at once.
    """
    with (
        suppress(BootstrapError, OSError, ValueError, RecursionError, LookupError),
        suppress(TypeError),
        closing(running_store(replace(place, seconds=0.0))) as store,
    ):
        last = store.read(ROUND) if store.read(CLOSED) else None
        if last is not None:
            return frozenset(str(name) for name, _ in json.loads(last.value)["members"])
    return None
