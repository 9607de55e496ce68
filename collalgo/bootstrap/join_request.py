"""The request of a process to join the rendezvous of its host, and the answer to it.

Both messages have fixed binary formats, which are checked and never unpickled.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from collalgo.bootstrap.late_ranks import LateRanks
from collalgo.bootstrap.liveness_check import LivenessCheck
from collalgo.errors import BootstrapError

#: The start of each message.
MAGIC = b"collalg1"

#: The request: the rank on this host, and the number of ranks there.
HELLO = struct.Struct("=8sII")

#: The head of the answer; the process ids of all ranks follow.
_ANSWER = struct.Struct("=8sI")


class JoinRequest(NamedTuple):
    """The part of one process in the rendezvous of its host.

    Attributes
    ----------
    local_rank
        Its rank on this host; rank 0 makes the memory.
    members
        The ranks of the processes of this host, as errors call them.
    timeout
        The seconds of the wait for the others.
    deadline
        Its end, by the monotonic clock.
    liveness
        Detects the end of one of the processes.
    """

    local_rank: int
    members: Sequence[int]
    timeout: float
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

    def late_ranks(self) -> LateRanks:
        """Warns if the others are late."""
        return LateRanks(self.me, self.size, self.deadline)

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
