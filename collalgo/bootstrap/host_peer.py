"""A peer in the rendezvous of one host: it joins the root, which makes the memory."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from collalgo.base.unix_socket import UnixSocket
from collalgo.bootstrap.join_request import (
    HELLO,
    MAGIC,
    JoinRequest,
    answer_bytes,
    processes_in,
)
from collalgo.bootstrap.liveness_check import LIVENESS_SECONDS
from collalgo.errors import BootstrapError

#: Seconds between the first two attempts to connect with the root, and the most.
_FIRST_RETRY_SECONDS, _RETRY_SECONDS = 0.0005, 0.01

#: Bytes of the reason of a refusal, at most.
_PROBLEM_BYTES = 500


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
        waited = f"it gave no answer in {join_request.timeout:g} s"
        silence = waited if late else "it has left"
        raise BootstrapError(
            f"rank {join_request.me} cannot join rank {join_request.root}: "
            f"{answer.decode(errors='replace') or silence}",
            rank=join_request.me,
        )


def _check_user(connection: UnixSocket, join_request: JoinRequest) -> None:
    _, user, _ = connection.credentials()
    if user != os.geteuid():
        raise BootstrapError(
            f"rank {join_request.me}: the rendezvous belongs to user {user}, "
            f"not to user {os.geteuid()}; refusing to join",
            rank=join_request.me,
        )


def _exchange(
    connection: UnixSocket, join_request: JoinRequest
) -> tuple[bytes, list[int]]:
    """Send the request: the answer of the root, and the descriptors with it."""
    hello = HELLO.pack(MAGIC, join_request.local_rank, join_request.size)
    with suppress(OSError):
        connection.send(hello)
        _await_answer(connection, join_request)
        length = max(answer_bytes(join_request.size), _PROBLEM_BYTES)
        return connection.receive_with(length)
    return b"", []


def _await_answer(connection: UnixSocket, join_request: JoinRequest) -> None:
    """Wait until the answer can be read, or the deadline has passed.

    A rank that has left may have received its answer and ended normally; this rank's
    answer then follows shortly.
    """
    gone: BootstrapError | None = None
    connection.settimeout(2 * LIVENESS_SECONDS)
    while time.monotonic() < join_request.deadline:
        with suppress(TimeoutError):
            connection.peek()
            return
        if gone is not None:
            raise gone
        try:
            join_request.liveness.check()
        except BootstrapError as error:
            gone = error


def _connect(address: str, join_request: JoinRequest) -> UnixSocket:
    """Connect to the root, which may not listen yet."""
    connection = UnixSocket()
    connection.settimeout(_RETRY_SECONDS)  # not to wait for a full queue
    late = join_request.late_ranks()
    try:
        for pause in _pauses(join_request.deadline):
            if _is_open(connection, address):
                return connection
            join_request.liveness.check()
            late.check(lambda: [join_request.root])
            time.sleep(pause)
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise _no_rendezvous(join_request)


def _no_rendezvous(join_request: JoinRequest) -> BootstrapError:
    return BootstrapError(
        f"rank {join_request.me} waited {join_request.timeout:g} s for rank "
        f"{join_request.root}, which did not open the rendezvous; check that it was "
        "started, and on this host, or pass init a longer join_timeout",
        rank=join_request.me,
        missing=(join_request.root,),
    )


def _pauses(deadline: float) -> Iterator[float]:
    """The seconds between two attempts until a deadline, each twice those before."""
    pause = _FIRST_RETRY_SECONDS
    while time.monotonic() < deadline:
        yield pause
        pause = min(2 * pause, _RETRY_SECONDS)


def _is_open(connection: UnixSocket, address: str) -> bool:
    """Connect, if a process listens there."""
    try:
        connection.connect(address)
    except (ConnectionRefusedError, BlockingIOError, TimeoutError):
        return False
    return True
