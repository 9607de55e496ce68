"""The call of a job and the outcomes of its ranks in the store of the job.

Messages are divided into values that every store takes. Only processes that know the
secret of the job can read and write them, so they may be unpickled.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from collalgo.bootstrap.connect import store_address
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.protocol import VALUE_BYTES, KeyValueStore
from collalgo.errors import CollalgoError
from collalgo.launch.supervision import RankFailure

#: Bytes of a call, or of the outcome of a rank, at most.
MOST_BYTES = 1 << 30

#: Seconds that the other ranks have to end by themselves when one has failed.
GRACE = 5.0


class Arrival(NamedTuple):
    """A message in the store; later ones have greater versions."""

    version: int
    rank: int


class FunctionStore:
    """The call of a job and the outcomes of its ranks, over a store."""

    def __init__(self, store: KeyValueStore):
        self._store = store

    def _put(self, name: str, message: bytes, what: str) -> None:
        """Set a message; its length last, so that a message with one is complete."""
        if len(message) > MOST_BYTES:
            raise CollalgoError(
                f"{what} takes {len(message)} bytes as a pickle, of at most "
                f"{MOST_BYTES}; pass large data by files, or by collectives"
            )
        for start in range(0, len(message), VALUE_BYTES):
            part = message[start : start + VALUE_BYTES]
            self._store.set(f"part/{name}/{start // VALUE_BYTES}", part)
        self._store.set(f"length/{name}", b"%d" % len(message))

    def _take(self, name: str) -> bytes:
        length = int(self._store.get(f"length/{name}", JOIN_TIMEOUT))
        if length > MOST_BYTES:
            raise CollalgoError(
                f"{name} has {length} bytes, more than the limit of {MOST_BYTES}"
            )
        count = -(-length // VALUE_BYTES)
        keys = (f"part/{name}/{number}" for number in range(count))
        return b"".join(self._store.get(key, JOIN_TIMEOUT) for key in keys)

    def put_call(self, call: bytes) -> None:
        """Set the call that all ranks make."""
        self._put("call", call, "the function with its arguments")

    def call(self) -> bytes:
        """The call that all ranks make."""
        return self._take("call")

    def put_outcome(self, rank: int, outcome: bytes) -> None:
        """Set the outcome of a rank."""
        self._put(f"outcome/{rank}", outcome, f"the result of rank {rank}")

    def outcomes(self) -> dict[Arrival, bytes]:
        """The outcomes that ranks have set."""
        prefix = "length/outcome/"
        return {
            Arrival(entry.version, rank): self._take(f"outcome/{rank}")
            for key, entry in self._store.entries(prefix).items()
            for rank in [int(key.removeprefix(prefix))]
        }

    def tell(self, failures: Sequence[RankFailure], _others: bool) -> None:
        """Set the failures of ranks, as their launcher reports them."""
        for each in failures:
            about = json.dumps([each.reason, [*each.lines]]).encode()
            self._store.set(f"failure/{each.rank}", about)

    def failures(self) -> dict[Arrival, RankFailure]:
        """The failures of ranks, as their launchers report them."""
        found = {}
        for key, entry in self._store.entries("failure/").items():
            rank = int(key.removeprefix("failure/"))
            failure = RankFailure(rank, *json.loads(entry.value))
            found[Arrival(entry.version, rank)] = failure
        return found


@contextmanager
def opened(variables: Mapping[str, str]) -> Iterator[FunctionStore]:
    """A connection with the store that some variables name."""
    client = Client(*store_address(variables), JOIN_TIMEOUT)
    try:
        yield FunctionStore(client)
    finally:
        client.close()


def report_failures(
    variables: Mapping[str, str], failures: Sequence[RankFailure], others: bool
) -> None:
    """Set the failures of ranks in the store that some variables name."""
    with opened(variables) as store:
        store.tell(failures, others)
