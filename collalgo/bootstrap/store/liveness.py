"""Whether the other end of a connection, and its host, can still be reached."""

import select
import socket

#: Seconds until the kernel gives up a host that does not answer; the leases of its
#: clients end then. The kernel probes, so a busy or stopped process counts as alive.
SILENCE = 3

#: Offsets in the kernel's ``tcp_info``: how often data was sent again, and how many
#: probes were sent, since the other host has answered last.
RETRANSMITS, PROBES, TCP_STATE_BYTES = 2, 3, 8


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel detect the loss of the other host within :data:`SILENCE`."""
    options = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, SILENCE - 1),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE * 1000),
    )
    for level, option, value in options:
        connection.setsockopt(level, option, value)


def is_silent(connection: socket.socket) -> bool:
    """Whether the kernel has sent the other host something and has no answer yet."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_STATE_BYTES)
    return any(state[RETRANSMITS : PROBES + 1])


def is_closed_by_peer(connection: socket.socket) -> bool:
    """Whether the other end has closed its side; unread data may still be there."""
    polling = select.poll()
    polling.register(connection, select.POLLRDHUP)
    return bool(polling.poll(0))
