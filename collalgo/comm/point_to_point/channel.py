"""The channel between two ranks: a lane for each direction.

A lane is a communicator of the two, in which everything is a broadcast of its sender.
It carries the elements of messages, and records of a fixed size, which their receiver
can read without further information.
"""

import struct
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.point_to_point.link import Kind
from collalgo._kernels.comm.work import Work
from collalgo.comm.functions.sharing import broadcast, broadcast_async
from collalgo.comm.runner import Runner

if TYPE_CHECKING:
    from collalgo._kernels.comm.waiting import PeerState

#: The most bytes of a message that is sent at once between hosts, where engines send
#: longer ones only when their receiver calls.
EAGER_BYTES = 1024

#: The bytes of the header of a message, as in ``segment.h``: the kind in the first
#: byte, the number of bytes at :data:`NBYTES`. Behind it a record has the bytes of
#: short messages that its sender has taken so far, and room for as much again.
HEAD_BYTES, NBYTES = 48, 32
RECORD_BYTES = 2 * HEAD_BYTES + 8

#: The bytes taken after which a rank notifies the other.
TOLD_BYTES = 1 << 20

#: The reason for the end of a rank that has given none.
ENDED = "its process ended"

#: The algorithm of both: a single message, whatever the environment sets.
ALGORITHM = "binomial"


class Channel:
    """The channel of this rank to another.

    Parameters
    ----------
    outgoing, incoming
        The lanes of the two directions.
    place
        The rank of this process in both.

    Attributes
    ----------
    taken_there : int
        The bytes of short messages that the other rank has taken so far.
    eager_bytes : int
        The most bytes of a message that is sent at once.
    """

    eager_bytes = EAGER_BYTES

    def __init__(self, outgoing: Runner, incoming: Runner, place: int):
        self._outgoing, self._incoming = outgoing, incoming
        self._me, self._peer = place, 1 - place
        self._last: Work | None = None  # write in the background
        self._taken = self._told = 0  # bytes of short messages, and what is known of it
        self.taken_there = 0
        self._received = np.zeros(RECORD_BYTES, np.uint8)

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

    def read(self) -> tuple[bytes, bytes]:
        """The header of the next record, and its payload."""
        self._receive(self._received)
        packed = self._received.tobytes()
        head, behind = packed[:HEAD_BYTES], packed[HEAD_BYTES + 8 :]
        (self.taken_there,) = struct.unpack_from("q", packed, HEAD_BYTES)
        if head[0] != Kind.EAGER:
            return head, behind
        (nbytes,) = struct.unpack_from("q", head, NBYTES)
        if nbytes > len(behind):
            elements = np.empty(nbytes, np.uint8)
            self._receive(elements)
            behind = elements.tobytes()
        return head, behind

    def _receive(self, array: NDArray[np.uint8]) -> None:
        broadcast(array, self._incoming, self._peer, algorithm=ALGORITHM)

    def read_later(self, array: Any) -> Work:
        """Receive the elements of a long message in the background."""
        return broadcast_async(array, self._incoming, self._peer)

    def send_later(self, array: Any) -> Work:
        """Send the elements of a long message in the background."""
        self._last = broadcast_async(array, self._outgoing, self._me)
        return self._last

    @property
    def is_writing(self) -> bool:
        """Whether a written record waits for room."""
        return self._last is not None and not self._last.done()

    def take(self, nbytes: int) -> None:
        """Count a short message as taken, and notify the other rank at intervals."""
        self._taken += nbytes + HEAD_BYTES
        if self._taken - self._told >= TOLD_BYTES:
            self.write(bytes([Kind.CREDIT]).ljust(HEAD_BYTES, b"\0"), b"")

    def write(self, head: bytes, behind: bytes) -> None:
        """Send a record and its payload; this never waits for the other rank."""
        self._told = self._taken
        packed = head + struct.pack("q", self._taken)
        if len(behind) <= HEAD_BYTES:
            self._send((packed + behind).ljust(RECORD_BYTES, b"\0"))
        else:
            self._send(packed.ljust(RECORD_BYTES, b"\0"))
            self._send(behind)

    def _send(self, packed: bytes) -> None:
        array = np.frombuffer(packed, np.uint8)
        if self._outgoing.progress.has_room(self._peer, 1):
            broadcast(array, self._outgoing, self._me, algorithm=ALGORITHM)
        else:
            self._last = broadcast_async(
                array, self._outgoing, self._me, algorithm=ALGORITHM
            )

    def exit_reason(self) -> str:
        """The reason why the other rank has left, after an error of a lane."""
        for context in (self._incoming.context, self._outgoing.context):
            if not context.transport.closed and context.shared.failure() is not None:
                return str(context.failure()["exit_reason"]) or ENDED
        return ENDED

    def close(self) -> None:
        self._outgoing.close()
        self._incoming.close()

    def abort(self, reason: str) -> None:
        """Close because of an error, and send its reason to the other rank."""
        self._outgoing.context.abort(reason)
        self._incoming.context.abort(reason)
