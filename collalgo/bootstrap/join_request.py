"""The request to join the rendezvous of a host, the peer that sends it, and its answer.

Both messages have fixed binary formats, which are checked and never unpickled.
"""

import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
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

#: Seconds between two attempts to connect with the root.
_RETRY_SECONDS = 0.01

#: Bytes of the reason of a refusal, at most.
_PROBLEM_BYTES = 500

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
        # A rank may have left normally because another died.
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


def join(address: str, join_request: JoinRequest) -> tuple[int, list[int]]:
    """Join the root: the descriptor of the memory, and the process ids of all."""
    with _connect(address, join_request) as connection:
        _check_user(connection, join_request)
        answer, descriptors = _exchange(connection, join_request)
        processes = processes_in(answer, join_request.size)
        if processes is not None and len(descriptors) == 1:
            return descriptors[0], processes
        for descriptor in descriptors:
            os.close(descriptor)
        join_request.liveness.check()  # the end of a process is the more precise cause
        late = time.monotonic() >= join_request.deadline
        silence = "it gave no answer in time" if late else "it has left"
        raise BootstrapError(
            f"rank {join_request.me} cannot join rank {join_request.root}: "
            f"{answer.decode(errors='replace') or silence}",
            rank=join_request.me,
        )


def _check_user(connection: socket.socket, join_request: JoinRequest) -> None:
    _, user, _ = credentials(connection)
    if user != os.geteuid():
        raise BootstrapError(
            f"rank {join_request.me}: the rendezvous belongs to user {user}, "
            f"not to user {os.geteuid()}; refusing to join",
            rank=join_request.me,
        )


def _exchange(
    connection: socket.socket, join_request: JoinRequest
) -> tuple[bytes, list[int]]:
    """Send the request: the answer of the root, and the descriptors with it."""
    hello = HELLO.pack(MAGIC, join_request.local_rank, join_request.size)
    with suppress(OSError):
        connection.send(hello)
        _await_answer(connection, join_request)
        length = max(answer_bytes(join_request.size), _PROBLEM_BYTES)
        answer, descriptors, _, _ = socket.recv_fds(connection, length, 1)
        return answer, list(descriptors)
    return b"", []


def _await_answer(connection: socket.socket, join_request: JoinRequest) -> None:
    """Wait until the answer can be read, or the deadline has passed.

    A rank that is gone may have received its answer and ended normally; this rank's
    answer then follows shortly.
    """
    gone: BootstrapError | None = None
    connection.settimeout(2 * LOOK_SECONDS)
    while time.monotonic() < join_request.deadline:
        with suppress(TimeoutError):
            connection.recv(1, socket.MSG_PEEK)
            return
        if gone is not None:
            raise gone
        try:
            join_request.liveness.check()
        except BootstrapError as error:
            gone = error


def _connect(address: str, join_request: JoinRequest) -> socket.socket:
    """Connect to the root, which may not listen yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_RETRY_SECONDS)  # not to wait for a full queue
    try:
        while time.monotonic() < join_request.deadline:
            if _is_open(connection, address):
                return connection
            join_request.liveness.check()
            time.sleep(_RETRY_SECONDS)
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise BootstrapError(
        f"rank {join_request.me} waited for rank {join_request.root}, which did not "
        "open the rendezvous in time; check that it was started, and on this host",
        rank=join_request.me,
        missing=(join_request.root,),
    )


def _is_open(connection: socket.socket, address: str) -> bool:
    """Connect, if a process listens there."""
    try:
        connection.connect(address)
    except (ConnectionRefusedError, BlockingIOError, TimeoutError):
        return False
    return True
