"""Processes of one host that are to meet, and what they say to each other when they do.

What travels is a fixed binary format, which is checked and never unpickled.
"""

import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.errors import BootstrapError

#: Before all else that is said.
MAGIC = b"collalg1"

#: What who joins says: its place, and how many it believes in.
HELLO = struct.Struct("=8sII")

#: What it hears, before the processes of all; see :func:`answer`.
_ANSWER = struct.Struct("=8sI")

#: Seconds between two looks whether a rank is gone that has not come.
LOOK_SECONDS = 0.1

_CREDENTIALS = struct.Struct("=iII")


class Watch(Protocol):
    """Who knows of some processes whether they are there."""

    def check(self) -> None:
        """Raise BootstrapError if one of them is gone."""


class GroupLivenessCheck(Watch, Protocol):
    """What is known of some processes that wait for each other to join."""

    def of(self, members: Sequence[int]) -> "GroupLivenessCheck":
        """The same of some of them, by their numbers."""


class NoLivenessCheck:
    """Nobody is told when a process ends."""

    def of(self, _members: Sequence[int]) -> "NoLivenessCheck":
        return self

    def check(self) -> None:
        pass


class HostLivenessCheck:
    """Processes of one host, as a rank of a world that they share sees them.

    Parameters
    ----------
    transport
        The rank's end of that world.
    watch
        Who else knows of them.
    ranks
        Theirs in that world.
    """

    def __init__(self, transport: SharedMemory, watch: Watch, ranks: Sequence[int]):
        self._transport, self._watch, self._ranks = transport, watch, ranks

    def check(self) -> None:
        self._watch.check()
        me = self._transport.rank
        if self._transport.closed:
            raise BootstrapError(f"rank {me} has closed its communicator", rank=me)
        # Who has left in good order may have done so because another died.
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
    """Processes of one host that are to meet, as one of them sees it.

    Attributes
    ----------
    place
        Which of them this is; the first makes the memory of all.
    members
        The ranks that they have, as errors tell.
    deadline
        Until when they wait for each other.
    watch
        Who knows whether they are there.
    """

    place: int
    members: Sequence[int]
    deadline: float
    watch: Watch

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def me(self) -> int:
        return self.members[self.place]

    @property
    def leader(self) -> int:
        return self.members[0]

    def left(self, place: int) -> BootstrapError:
        """The error if one of them has left."""
        return BootstrapError(
            f"rank {self.members[place]} has left while the ranks were joining",
            rank=self.me,
            missing=(self.members[place],),
        )


def answer(processes: Sequence[int]) -> bytes:
    """What the first says with the memory: the processes of all."""
    size = len(processes)
    return _ANSWER.pack(MAGIC, size) + struct.pack(f"={size}I", *processes)


def answer_bytes(size: int) -> int:
    """How long the answer to so many is."""
    return _ANSWER.size + 4 * size


def processes_in(said: bytes, size: int) -> list[int] | None:
    """The processes of so many in an answer, or None if it is none."""
    expected = _ANSWER.pack(MAGIC, size)
    if not said.startswith(expected):
        return None
    return list(struct.unpack(f"={size}I", said[len(expected) :]))


def credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group of the other side, as the kernel knows them."""
    data = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    process, user, group = _CREDENTIALS.unpack(data)
    return process, user, group
