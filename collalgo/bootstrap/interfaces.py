"""The addresses of this host, from its interfaces and routes, never from its name."""

import fcntl
import socket
import struct
from contextlib import suppress

_GET_ADDRESS = 0x8915  # SIOCGIFADDR


def addresses(*, loopback: bool = False) -> list[str]:
    """The IPv4 addresses of the interfaces that are up, in their order.

    Parameters
    ----------
    loopback
        Whether to add the loopback address at the end.
    """
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe, _GET_ADDRESS, request)
                found.append(socket.inet_ntoa(answer[20:24]))
    ours = [address for address in found if not address.startswith("127.")]
    return [*ours, *(["127.0.0.1"] if loopback else [])]


def address_towards(host: str) -> str:
    """The address of this host on the route to another one.

    Raises
    ------
    OSError
        If there is no route.
    """
    kind, _, _, _, where = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        address: str = probe.getsockname()[0]
    return address
