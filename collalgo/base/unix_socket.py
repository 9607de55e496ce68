"""Unix sockets that pass descriptors, for the ranks of one host.

The module :mod:`socket` makes enumerations of all its constants, which takes 4 ms of
the start of each rank; a job on one host needs the type that it is built on only.
"""

from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_PEEK,
    SCM_RIGHTS,
    SO_PEERCRED,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)
from array import array
from struct import Struct

_CREDENTIALS = Struct("=iII")


class UnixSocket(socket):
    """A socket of whole messages between processes of this host."""

    def __init__(self, descriptor: int | None = None):
        super().__init__(AF_UNIX, SOCK_SEQPACKET, 0, descriptor)

    def __enter__(self) -> "UnixSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept(self) -> "UnixSocket":
        """The next connection of another process."""
        return UnixSocket(self._accept()[0])  # type: ignore[attr-defined]

    def peek(self) -> None:
        """Wait until a message can be received."""
        self.recv(1, MSG_PEEK)

    def send_with(self, message: bytes, descriptor: int) -> None:
        """Send a message with a descriptor."""
        self.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, array("i", [descriptor]))])

    def receive_with(self, length: int) -> tuple[bytes, list[int]]:
        """Receive a message, and the descriptor with it if there is one."""
        found = array("i")
        message, more, _, _ = self.recvmsg(length, CMSG_SPACE(found.itemsize))
        for level, kind, data in more:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
        return message, found.tolist()

    def credentials(self) -> tuple[int, int, int]:
        """Process, user and group id of the other side, from the kernel."""
        data = self.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
        process, user, group = _CREDENTIALS.unpack(data)
        return process, user, group
