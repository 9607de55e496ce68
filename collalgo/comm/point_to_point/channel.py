"""The channel between two ranks: a lane for each direction.

A lane is a communicator of the two, in which everything is a broadcast of its sender.
"""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.work import Work
from collalgo.comm.functions.sharing import broadcast, broadcast_async
from collalgo.comm.point_to_point.record import (
    INLINE_BYTES,
    RECORD_BYTES,
    Kind,
    Record,
    unpack,
)
from collalgo.comm.runner import Runner

if TYPE_CHECKING:
    from collalgo._kernels.comm.waiting import PeerState

#: The most bytes of a message that is sent at once, inside a host and between hosts,
#: where engines send longer ones only when their receiver calls.
EAGER_BYTES, EAGER_BYTES_BETWEEN_HOSTS = 16384, 1024

#: The most bytes of short messages that a rank keeps for another before it receives
#: them; further ones wait at their sender.
KEPT_BYTES = 4 << 20

#: The lines of a channel that short messages leave free for other records.
RESERVED = 3

#: Why a rank is gone that has said nothing.
ENDED = "its process ended"

#: A single message each, whatever the environment says.
ALGORITHM = "binomial"


class Channel:
    """The channel of this rank to another.

    Parameters
    ----------
    outgoing, incoming
        The lanes of the two directions.
    place
        The rank of this process in both.
    """

    def __init__(self, outgoing: Runner, incoming: Runner, place: int):
        self._outgoing, self._incoming = outgoing, incoming
        self._me, self._peer = place, 1 - place
        self._last: Work | None = None  # write in the background
        self._given = self._taken_there = 0  # bytes of short messages to the other,
        self._taken = self._told = 0  # and from it, and what it knows to be taken
        self._received = np.zeros(RECORD_BYTES, np.uint8)
        between_hosts = len(set(outgoing.hosts)) > 1
        self.eager_bytes = EAGER_BYTES_BETWEEN_HOSTS if between_hosts else EAGER_BYTES

    def state(self) -> "PeerState":
        """Whether the other rank has written a record, or has left."""
        return self._incoming.progress.peer_state(self._peer)

    def await_record(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until there is a record, or the other rank leaves.

        False if the lane is busy, so that there was no wait.
        """
        begun = time.monotonic()
        state = self._incoming.progress.await_peer(self._peer, seconds)
        return bool(state != "quiet" or time.monotonic() >= begun + seconds)

    def read(self) -> tuple[Record, NDArray[np.uint8]]:
        """The next record, and the bytes of a very short message in it."""
        self.read_into(self._received)
        record, inline = unpack(self._received)
        self._taken_there = record.taken
        return record, inline

    def read_into(self, array: NDArray[Any]) -> None:
        """Receive the elements that follow a record."""
        broadcast(array, self._incoming, self._peer, algorithm=ALGORITHM)

    def read_long(self, array: NDArray[Any]) -> None:
        """Receive the elements of a long message."""
        broadcast(array, self._incoming, self._peer)

    def read_later(self, array: Any) -> Work:
        """The same in the background, for an array on a device."""
        return broadcast_async(array, self._incoming, self._peer)

    @property
    def is_writing(self) -> bool:
        """Whether something that was written waits for room."""
        return self._last is not None and not self._last.done()

    def has_room(self) -> bool:
        """Whether a short message can be sent without a wait."""
        return self._outgoing.progress.has_room(self._peer, 2 + RESERVED)

    def may_give(self, nbytes: int) -> bool:
        """Whether the other rank may have to keep so many bytes more."""
        kept = self._given - self._taken_there
        return kept + nbytes + RECORD_BYTES <= KEPT_BYTES

    def give(self, record: Record, elements: NDArray[np.uint8]) -> None:
        """Send a short message, in the background unless there is room."""
        self._given += len(elements) + RECORD_BYTES
        if len(elements) <= INLINE_BYTES:
            self.write(record, elements)
            return
        has_room = self.has_room()
        self.write(record)
        if has_room:
            broadcast(elements, self._outgoing, self._me, algorithm=ALGORITHM)
        else:
            self._last = broadcast_async(
                elements.copy(), self._outgoing, self._me, algorithm=ALGORITHM
            )

    def take(self, nbytes: int) -> None:
        """Count a short message as taken; tell the other rank now and then."""
        self._taken += nbytes + RECORD_BYTES
        if self._taken - self._told >= KEPT_BYTES // 4:
            self.write(Record(Kind.CREDIT))

    def write(self, record: Record, behind: NDArray[np.uint8] | None = None) -> None:
        """Send a record, and a few bytes behind it; this never waits for the other."""
        self._told = self._taken
        packed = record._replace(taken=self._taken).pack(behind)
        if self._outgoing.progress.has_room(self._peer, 1):
            broadcast(packed, self._outgoing, self._me, algorithm=ALGORITHM)
        else:
            self._last = broadcast_async(
                packed, self._outgoing, self._me, algorithm=ALGORITHM
            )

    def write_later(self, record: Record, array: Any) -> Work:
        """Send a record and the elements of a long message in the background."""
        self.write(record)
        self._last = broadcast_async(array, self._outgoing, self._me)
        return self._last

    def exit_reason(self) -> str:
        """Why the other rank has left, after an error of a lane."""
        for context in (self._incoming.context, self._outgoing.context):
            if not context.transport.closed and context.shared.failure() is not None:
                return str(context.failure()["exit_reason"]) or ENDED
        return ENDED

    def close(self) -> None:
        self._outgoing.close()
        self._incoming.close()

    def abort(self, reason: str) -> None:
        """Close because of an error, which the other rank is told."""
        self._outgoing.context.abort(reason)
        self._incoming.context.abort(reason)
