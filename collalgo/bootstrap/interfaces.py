"""The addresses of this host, from its interfaces and routes, never from its name."""

import fcntl
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collalgo.base.environment import INTERFACES
from collalgo.base.variable_values import address
from collalgo.errors import BootstrapError

#: Where Linux shows its interfaces, and its devices of RDMA.
NETWORK = Path("/sys/class/net")
RDMA = Path("/sys/class/infiniband")
ROUTES = Path("/proc/net/route")

_GET_ADDRESS = 0x8915  # SIOCGIFADDR


class Interface(NamedTuple):
    """An interface of this host and its IPv4 address."""

    name: str
    address: str

    @property
    def is_loopback(self) -> bool:
        """Whether it is a loopback interface."""
        return self.address.startswith("127.")

    @property
    def is_bridge(self) -> bool:
        """Whether it is a bridge of this host, as that of containers."""
        return (NETWORK / self.name / "bridge").exists()


def interfaces() -> list[Interface]:
    """The interfaces that are up and have an address, in their order."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe, _GET_ADDRESS, request)
                found.append(Interface(name, socket.inet_ntoa(answer[20:24])))
    return found


def addresses(*, loopback: bool = False) -> list[str]:
    """The IPv4 addresses of the interfaces between hosts, in their order.

    Parameters
    ----------
    loopback
        Whether to add the loopback address at the end.

    Raises
    ------
    BootstrapError
        If ``COLLALGO_INTERFACES`` names an interface that this host does not have.
    """
    ours = [each for each in interfaces() if not each.is_loopback]
    wanted: list[str] | None = INTERFACES.value()
    if wanted:
        ours = selected(ours, wanted, socket.gethostname())
    return [*(each.address for each in ours), *(["127.0.0.1"] if loopback else [])]


def selected(
    found: Sequence[Interface], wanted: Sequence[str], host: str
) -> list[Interface]:
    """The wanted ones of the interfaces of a host, in the order of the wanted names.

    Raises
    ------
    BootstrapError
        If the host does not have one of them.
    """
    by_name = {each.name: each for each in found}
    for name in wanted:
        if name not in by_name:
            raise BootstrapError(
                f"host {host} has no interface {name} that is up and has an IPv4 "
                f"address; it has {', '.join(by_name) or 'none'} (--interfaces, "
                f"{INTERFACES.name})"
            )
    return [by_name[name] for name in wanted]


class Port(NamedTuple):
    """An interface of this host as it is seen by the engine.

    Attributes
    ----------
    name : str
        Its name.
    is_device : bool
        Whether a device carries it, and not other interfaces.
    megabits : int
        Its speed in Mbit/s; 0 if it is unknown.
    numa : int
        The NUMA node of its device; -1 if it is unknown.
    networks : list
        The address and mask of each of its routes, as numbers.
    """

    name: str
    is_device: bool
    megabits: int
    numa: int
    networks: list[list[int]]

    def has_route(self, address: str) -> bool:
        """Whether a route of its own leads to an IPv4 address."""
        number = int.from_bytes(socket.inet_aton(address), sys.byteorder)
        return any(number & mask == network for network, mask in self.networks)


def ports() -> list[Port]:
    """The interfaces between hosts, in their order."""
    routes: dict[str, list[list[int]]] = {}
    table = ROUTES.read_text() if ROUTES.exists() else ""
    for line in table.splitlines()[1:]:
        name, network, *_, mask, _, _, _ = line.split()
        routes.setdefault(name, []).append([int(network, 16), int(mask, 16)])
    return [
        Port(
            each.name,
            (NETWORK / each.name / "device").exists(),
            max(0, _number(NETWORK / each.name / "speed", 0)),
            _number(NETWORK / each.name / "device" / "numa_node", -1),
            routes.get(each.name, []),
        )
        for each in interfaces()
        if not each.is_loopback
    ]


def _number(path: Path, default: int) -> int:
    """The number in a file of the kernel."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return default


def rdma_devices() -> dict[str, str]:
    """The ports of devices of RDMA, as UCX calls them, and their interfaces."""
    found = {}
    for port in sorted(RDMA.glob("*/ports/*")):
        device = port.parent.parent
        for interface in sorted((device / "device" / "net").glob("*")):
            with suppress(OSError, ValueError):
                number = int((interface / "dev_port").read_text()) + 1
                if number == int(port.name):
                    found[f"{device.name}:{number}"] = interface.name
    return found


def is_loopback(host: str) -> bool:
    """Whether a host is reached from itself alone."""
    return host in ("localhost", "::1") or host.startswith("127.")


def in_url(host: str) -> str:
    """A host or address as in a URL."""
    return f"[{host}]" if ":" in host else host


def family_of(host: str) -> socket.AddressFamily:
    """The family of the addresses of a host, which is IPv6 if it is named by one."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


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


def is_address(value: str) -> bool:
    """Whether a text names hosts and a valid port."""
    try:
        address(value)
    except ValueError:
        return False
    return True
