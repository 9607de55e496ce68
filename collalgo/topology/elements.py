"""What a topology is made of: devices, and the links between them.

A bandwidth is in GB/s (10^9 bytes per second) for each direction, a latency in seconds.
What nobody knows is None; what was not said but assumed is named in ``Link.assumed``.
"""

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from collalgo.errors import TopologyError

#: No link is a bundle of more cables.
MOST_CABLES = 1_000_000


class Kind(str, Enum):
    """What a device is."""

    GPU = "gpu"
    NIC = "nic"
    PCI = "pci"  #: a PCIe switch or bridge
    ROOT = "root"  #: a host bridge, where it is told apart from its CPU
    CPU = "cpu"  #: a NUMA node
    CORE = "core"  #: what of a CPU one rank runs on
    NVSWITCH = "nvswitch"
    HOST = "host"  #: a host of which nothing more is known
    SWITCH = "switch"  #: of a network


class LinkKind(str, Enum):
    """What a link is made of."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    C2C = "c2c"
    PCIE = "pcie"
    ICI = "ici"  #: between the chips of a TPU
    SMP = "smp"  #: between CPUs: UPI, QPI, Infinity Fabric
    NETWORK = "network"


#: Links between GPUs that pass no PCIe.
FAST = (LinkKind.NVLINK, LinkKind.XGMI, LinkKind.ICI)


@dataclass(frozen=True)
class Device:
    """A node of the graph.

    Attributes
    ----------
    id : str
        Unique in the topology, as ``host0/gpu3``; bus ids and names need not be.
    kind : Kind
        What it is.
    host : str
        The host that it is in, or "" for what belongs to the fabric.
    name : str
        What its maker or the system calls it.
    attributes : dict
        All else that is known: ``busid``, ``numa``, ``sm``, ``speed`` (GB/s), ...
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
        What it is made of.
    bandwidth : float or None
        GB/s in each direction, of all cables together.
    count : int
        The number of cables, lanes not counted.
    latency : float or None
        Seconds.
    assumed : tuple of str
        What of this was assumed, each with the rule that says so.
    """

    ends: tuple[str, str]
    kind: LinkKind
    bandwidth: float | None = None
    count: int = 1
    latency: float | None = None
    assumed: tuple[str, ...] = ()

    def other(self, end: str) -> str:
        """The device at the other end."""
        return self.ends[1] if self.ends[0] == end else self.ends[0]

    def __str__(self) -> str:
        return f"{self.kind.value} {self.ends[0]} - {self.ends[1]}"


def check(link: Link) -> None:
    """Refuse numbers that no link can have."""
    for what, value in (("bandwidth", link.bandwidth), ("latency", link.latency)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise TopologyError(f"{link}: a {what} of {value} is not possible")
    if not 1 <= link.count <= MOST_CABLES:
        raise TopologyError(f"{link}: {link.count} cables are not possible")


def together(old: Link, new: Link) -> Link:
    """The cables of two links as one."""
    known = old.bandwidth is not None and new.bandwidth is not None
    latencies = [x for x in (old.latency, new.latency) if x is not None]
    return Link(
        old.ends,
        old.kind,
        old.bandwidth + new.bandwidth  # type: ignore[operator]
        if known
        else None,
        old.count + new.count,
        min(latencies, default=None),
        tuple(dict.fromkeys(old.assumed + new.assumed)),
    )
