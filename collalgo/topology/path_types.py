"""The types of paths, and the links that each type may use.

The types and their order are those of ``nvidia-smi topo -m`` and of NCCL.
"""

import math
from enum import IntEnum

from collalgo.topology.model import FAST, Kind, Link, LinkKind, Topology


class PathType(IntEnum):
    """The type of a path, from best to worst."""

    LOC = 0  #: the same device
    NVL = 1  #: NVLink or xGMI, directly or through NVSwitches
    NVB = 2  #: two such links, through another GPU
    C2C = 3  #: the link of a GPU to its own CPU
    PIX = 4  #: at most one PCIe switch
    PXB = 5  #: several PCIe switches, no CPU
    PHB = 6  #: the host bridge of a CPU
    NODE = 7  #: several host bridges of one NUMA node
    SYS = 8  #: several NUMA nodes
    NET = 9  #: the network
    DIS = 10  #: there is no path


def link_type(topology: Topology, link: Link) -> PathType:
    """The best type of a path over a link."""
    if link.kind in FAST:
        return PathType.NVL
    if link.kind is LinkKind.PCIE:
        return _pcie_type({topology.device(end).kind for end in link.ends})
    return {
        LinkKind.C2C: PathType.C2C,
        LinkKind.SMP: PathType.SYS,
        LinkKind.NETWORK: PathType.NET,
    }[link.kind]


def _pcie_type(kinds: set[Kind]) -> PathType:
    if kinds == {Kind.ROOT, Kind.CPU}:
        return PathType.NODE
    if kinds & {Kind.ROOT, Kind.CPU}:
        return PathType.PHB
    return PathType.PXB if kinds == {Kind.PCI} else PathType.PIX


def width_of(link: Link) -> float:
    """The GB/s of a link, infinite if unknown."""
    return math.inf if link.bandwidth is None else link.bandwidth


def relays(kind: Kind, link: Link, limit: PathType, through_hosts: bool) -> bool:
    """Whether paths of a type may continue from a device of a kind over a link."""
    if kind is Kind.GPU and link.kind is LinkKind.ICI:
        return True  # the chips of a TPU are routers
    if kind is Kind.CORE:
        return False
    if kind in (Kind.HOST, Kind.GPU):  # GPUs on a network of several dimensions
        return through_hosts and link.kind is LinkKind.NETWORK
    if kind is Kind.NIC:
        return limit is PathType.NET
    if kind in (Kind.CPU, Kind.ROOT):
        return limit >= PathType.PHB
    return True
