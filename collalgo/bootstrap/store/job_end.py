"""The end of an elastic job in its store: no further epoch begins."""

import json
from contextlib import closing, suppress

from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.protocol import ABSENT
from collalgo.errors import BootstrapError

#: The key of the reason, which all members watch.
CLOSED = "now/closed"

#: The version of the documents in the store; another one is refused.
FORMAT = 1

#: Seconds in which the store is reached, which is in this process.
SECONDS = 5.0


def closed(reason: str) -> bytes:
    """The document that closes a job."""
    return json.dumps({"format": FORMAT, "reason": reason}).encode()


def close_job(host: str, port: int, secret: bytes, reason: str) -> None:
    """Close the job whose store is at a port: members that wait for others end.

    The present epoch may continue to its end. Without a further descriptor for the
    connection nothing is done.
    """
    with (
        suppress(BootstrapError, OSError),
        closing(Client([host], port, secret, SECONDS)) as store,
    ):
        store.compare_set(CLOSED, closed(reason), ABSENT)
