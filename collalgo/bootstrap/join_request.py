"""The request to join the rendezvous of a host, and its answer.

Both are fixed binary formats, which are checked and never unpickled.
"""

import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.errors import BootstrapError

#: The start of each message.
MAGIC = b"collalg1"

#: The request: the rank on this host, and the number of ranks there.
HELLO = struct.Struct("=8sII")

#: The head of the answer; the process ids of all ranks follow.
_ANSWER = struct.Struct("=8sI")

#: Seconds between two checks that all processes which join are alive.
LOOK_SECONDS = 0.1

_CREDENTIALS = struct.Struct("=iII")


class LivenessCheck(Protocol):
    """Detects the end of one of some processes."""

    def check(self) -> None:
        """Raise BootstrapError if one of them has ended."""


class GroupLivenessCheck(LivenessCheck, Protocol):
    """Detects the end of one of some processes, or of one of a part of them."""

    def of(self, members: Sequence[int]) -> "GroupLivenessCheck":
        """The check of some of the processes, by their positions."""


class NoLivenessCheck:
    """Detects nothing, as nothing is known of the processes."""

    def of(self, _members: Sequence[int]) -> "NoLivenessCheck":
        return self

    def check(self) -> None:
        pass


class HostLivenessCheck:
    """Detects the end of processes of one host by a world that they share.

    Parameters
    ----------
    transport
        The transport of this rank in that world.
    other
        Another check of the same processes.
    ranks
        Their ranks in that world.
    """

    def __init__(
        self, transport: SharedMemory, other: LivenessCheck, ranks: Sequence[int]
    ):
        self._transport, self._other, self._ranks = transport, other, ranks

    def check(self) -> None:
        self._other.check()
        me = self._transport.rank
        if self._transport.closed:
            raise BootstrapError(f"rank {me} has closed its communicator", rank=me)
        # A rank may have left in good order because another died.
        gone = sorted(
            (*departure, rank)
            for rank in self._ranks
            if (departure := self._transport.departure(rank))
        )
        if gone:
            _, why, rank = gone[0]
            raise BootstrapError(
                f"rank {me} waited for rank {rank}, which is gone: {why}",
                rank=me,
                missing=(rank,),
            )


class JoinRequest(NamedTuple):
    """The part of one process in the rendezvous of its host.

    Attributes
    ----------
    local_rank
        Its rank on this host; rank 0 makes the memory.
    members
        The ranks of the processes of this host, as errors call them.
    deadline
        The end of the wait, by the monotonic clock.
    liveness
        Detects the end of one of the processes.
    """

    local_rank: int
    members: Sequence[int]
    deadline: float
    liveness: LivenessCheck

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def me(self) -> int:
        return self.members[self.local_rank]

    @property
    def root(self) -> int:
        return self.members[0]

    def left(self, local_rank: int) -> BootstrapError:
        """The error if one of the processes has left."""
        rank = self.members[local_rank]
        return BootstrapError(
            f"rank {rank} has left while the ranks were joining",
            rank=self.me,
            missing=(rank,),
        )


def answer(processes: Sequence[int]) -> bytes:
    """The answer of the root, sent with the memory: the process ids of all ranks."""
    size = len(processes)
    return _ANSWER.pack(MAGIC, size) + struct.pack(f"={size}I", *processes)


def answer_bytes(size: int) -> int:
    """The length of the answer for a number of ranks."""
    return _ANSWER.size + 4 * size


def processes_in(message: bytes, size: int) -> list[int] | None:
    """The process ids in an answer; None for another message."""
    expected = _ANSWER.pack(MAGIC, size)
    if not message.startswith(expected):
        return None
    return list(struct.unpack(f"={size}I", message[len(expected) :]))


def credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group id of the other side, from the kernel."""
    data = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    process, user, group = _CREDENTIALS.unpack(data)
    return process, user, group
