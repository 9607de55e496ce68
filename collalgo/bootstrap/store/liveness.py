"""Whether the other end of a connection is there, and its host: the kernel knows."""

import select
import socket

#: Seconds until a host that does not answer any more is given up: keys that it has
#: leased are deleted then. The kernel asks, so it does not matter what a process does.
SILENCE = 3

#: Where ``tcp_info`` of the kernel says how often data was sent again, and how many
#: probes were sent, since the other host has answered last.
RETRANSMITS, PROBES, TCP_STATE_BYTES = 2, 3, 8


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel find out when the other host is gone."""
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
    """Whether the kernel has asked the other host something, and has no answer yet."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_STATE_BYTES)
    return any(state[RETRANSMITS : PROBES + 1])


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the other end says no more; what it has said may still be unread."""
    looking = select.poll()
    looking.register(connection, select.POLLRDHUP)
    return bool(looking.poll(0))
