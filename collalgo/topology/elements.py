"""The elements of a topology: devices and links.

A bandwidth is in GB/s (10^9 bytes per second) in each direction, a latency in seconds.
Unknown values are None; assumed values are named in ``Link.assumed``.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from collalgo.base.arguments import shown
from collalgo.errors import TopologyError

#: The least and the most GB/s of a link or a port, and the most seconds of a link:
#: all prices and bounds are exact within them.
LEAST_SPEED, MOST_SPEED, MOST_LATENCY = 1e-6, 1e9, 10.0

#: The most cables of a link.
MOST_CABLES = 1_000_000

#: The most characters of an id.
LONGEST_ID = 1000

#: The characters of an id that have a meaning in lists.
_SPECIAL = re.compile(r"[\s,\[\]]+")


def identifier(text: str) -> str:
    """A text as an id: characters that have a meaning in lists become underscores.

    Raises
    ------
    TopologyError
        If it is too long or has control characters.
    """
    check_printable(text)
    if len(text) > LONGEST_ID:
        raise TopologyError(
            f"an id of {len(text)} characters, {text[:40]!r}...; at most {LONGEST_ID} "
            "are possible"
        )
    return _SPECIAL.sub("_", text)


def check_printable(text: str) -> None:
    """Refuse control characters, which would change what a terminal shows."""
    if text.isprintable():
        return
    for letter in text:
        if unicodedata.category(letter)[0] == "C":
            raise TopologyError(
                f"the name {text[:40]!r} has the control character {letter!r}; "
                "remove it"
            )


class Kind(str, Enum):
    """The kind of a device."""

    GPU = "gpu"
    NIC = "nic"
    PCI = "pci"  #: a PCIe switch or bridge
    CARD = "card"  #: the one PCIe slot of several ports of a NIC, or of several GPUs
    ROOT = "root"  #: a host bridge that is distinct from its CPU
    CPU = "cpu"  #: a NUMA node
    CORE = "core"  #: the share of a CPU that one rank runs on
    NVSWITCH = "nvswitch"
    HOST = "host"  #: a host without known devices
    SWITCH = "switch"  #: a network switch


class LinkKind(str, Enum):
    """The kind of a link."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    C2C = "c2c"
    PCIE = "pcie"
    ICI = "ici"  #: between the chips of a TPU
    SMP = "smp"  #: between CPUs: UPI, QPI, Infinity Fabric
    NETWORK = "network"


#: The kinds of links between GPUs that bypass PCIe.
FAST = (LinkKind.NVLINK, LinkKind.XGMI, LinkKind.ICI)


@dataclass(frozen=True)
class Device:
    """A node of the graph.

    Attributes
    ----------
    id : str
        The id, unique in the topology, as ``host0/gpu3``.
    kind : Kind
        The kind of device.
    host : str
        The host of the device, or "" for a device of the fabric.
    name : str
        The name given by the vendor or the system.
    attributes : dict
        Further properties: ``busid``, ``numa``, ``sm``, ``speed`` (GB/s), ...
    """

    id: str
    kind: Kind
    host: str = ""
    name: str = ""
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True)
class Link:
    """An edge of the graph: all cables of one kind between two devices.

    Attributes
    ----------
    ends : tuple of str
        The ids of the two devices.
    kind : LinkKind
        The kind of link.
    bandwidth : float or None
        GB/s in each direction, of all cables together.
    count : int
        The number of cables (not of lanes).
    latency : float or None
        The latency in seconds.
    assumed : tuple of str
        The values that were assumed, with their rules.
    fraction : float
        The fraction of the bandwidth after a fault; ``bandwidth`` includes it.
    """

    ends: tuple[str, str]
    kind: LinkKind
    bandwidth: float | None = None
    count: int = 1
    latency: float | None = None
    assumed: tuple[str, ...] = ()
    fraction: float = 1.0

    def other(self, end: str) -> str:
        """The device at the other end."""
        return self.ends[1] if self.ends[0] == end else self.ends[0]

    def __str__(self) -> str:
        return f"{self.kind.value} {self.ends[0]} - {self.ends[1]}"


def check(link: Link) -> None:
    """Refuse numbers out of range; a bandwidth of 0 means that there is no link."""
    if link.bandwidth:
        check_speed(f"{link}: a bandwidth", link.bandwidth)
    if link.latency is not None and not 0 <= link.latency <= MOST_LATENCY:
        raise TopologyError(
            f"{link}: a latency of {_short(link.latency)} s is not possible; links "
            f"have 0 to {MOST_LATENCY:g} s"
        )
    if not 1 <= link.count <= MOST_CABLES:
        raise TopologyError(f"{link}: {shown(link.count)} cables are not possible")


def check_speed(what: str, speed: float) -> None:
    """Refuse a speed in GB/s that no link or port has."""
    if not LEAST_SPEED <= speed <= MOST_SPEED:
        raise TopologyError(
            f"{what} of {_short(speed)} GB/s is not possible; speeds are "
            f"{LEAST_SPEED:g} to {MOST_SPEED:g} GB/s"
        )


def _short(number: float) -> str:
    """A number in messages, also an integer that no float can be."""
    try:
        return f"{number:g}"
    except OverflowError:
        return shown(number)


#: The rule of cables whose bandwidth is unknown, beside others whose is known.
AS_OTHERS = "cables of unknown speed are as fast as the others of their link"


def merged(old: Link, new: Link) -> Link:
    """The link that has the cables of two links."""
    count = old.count + new.count
    latencies = [x for x in (old.latency, new.latency) if x is not None]
    known = [link for link in (old, new) if link.bandwidth is not None]
    speeds = sum(link.bandwidth or 0 for link in known)
    rule: tuple[str, ...] = ()
    if len(known) == 1:
        speeds, rule = speeds * count / known[0].count, (AS_OTHERS,)
    return Link(
        old.ends,
        old.kind,
        speeds if known else None,
        count,
        min(latencies, default=None),
        tuple(dict.fromkeys(old.assumed + new.assumed + rule)),
    )


def renamed(device: Device, names: Mapping[str, str]) -> tuple[str, str]:
    """The id and the host of a device whose host or own id has another name."""
    host = names.get(device.host, device.host)
    if device.host and device.id.startswith(f"{device.host}/"):
        return host + device.id[len(device.host) :], host
    return names.get(device.id, device.id), host
