"""Any other process of a host at a rendezvous: it takes the memory of all."""

import os
import socket
import time
from contextlib import suppress

from collalgo.bootstrap.join_request import (
    HELLO,
    LOOK_SECONDS,
    MAGIC,
    JoinRequest,
    answer_bytes,
    credentials,
    processes_in,
)
from collalgo.errors import BootstrapError

_RETRY_SECONDS = 0.01
_PROBLEM_BYTES = 500


def take(address: str, join_request: JoinRequest) -> tuple[int, list[int]]:
    """Any other: say hello to the first and take the memory."""
    with _connect(address, join_request) as connection:
        _, user, _ = credentials(connection)
        if user != os.geteuid():
            raise BootstrapError(
                f"rank {join_request.me}: the rendezvous belongs to user {user}, "
                f"not to user {os.geteuid()}; refusing to join",
                rank=join_request.me,
            )
        said = b""
        descriptors: list[int] = []
        with suppress(OSError):
            connection.send(HELLO.pack(MAGIC, join_request.place, join_request.size))
            _await_answer(connection, join_request)
            length = max(answer_bytes(join_request.size), _PROBLEM_BYTES)
            said, descriptors, _, _ = socket.recv_fds(connection, length, 1)
        processes = processes_in(said, join_request.size)
        if processes is not None and len(descriptors) == 1:
            return descriptors[0], processes
        for descriptor in descriptors:
            os.close(descriptor)
        join_request.watch.check()  # if somebody is gone, that is why
        late = time.monotonic() >= join_request.deadline
        silence = "it gave no answer in time" if late else "it has left"
        raise BootstrapError(
            f"rank {join_request.me} cannot join rank {join_request.leader}: "
            f"{said.decode(errors='replace') or silence}",
            rank=join_request.me,
        )


def _await_answer(connection: socket.socket, join_request: JoinRequest) -> None:
    """Wait until there is something to be read, in time or not.

    A rank may be gone because it has its answer and has ended: mine is not far then.
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
            join_request.watch.check()
        except BootstrapError as error:
            gone = error


def _connect(address: str, join_request: JoinRequest) -> socket.socket:
    """Connect to the first, which may not have come yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_RETRY_SECONDS)  # not to wait for a full queue
    try:
        while time.monotonic() < join_request.deadline:
            if _is_open(connection, address):
                return connection
            join_request.watch.check()
            time.sleep(_RETRY_SECONDS)
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise BootstrapError(
        f"rank {join_request.me} waited in vain for rank {join_request.leader} to open "
        "the rendezvous; see whether it was started, and on this host",
        rank=join_request.me,
        missing=(join_request.leader,),
    )


def _is_open(connection: socket.socket, address: str) -> bool:
    """Connect, if somebody listens there."""
    try:
        connection.connect(address)
    except (ConnectionRefusedError, BlockingIOError, TimeoutError):
        return False
    return True
