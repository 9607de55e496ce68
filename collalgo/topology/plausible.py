"""Warn of implausible values in a topology."""

from collalgo.base.hostlist import fold
from collalgo.topology.model import FAST, Kind, Link, LinkKind, Topology

#: The greatest plausible GB/s of a cable in each direction.
MOST = {
    LinkKind.NVLINK: 1000.0,
    LinkKind.XGMI: 1000.0,
    LinkKind.ICI: 1000.0,
    LinkKind.C2C: 1000.0,
    LinkKind.PCIE: 260.0,
    LinkKind.SMP: 1000.0,
    LinkKind.NETWORK: 1000.0,
}

#: The least plausible GB/s of a cable that bypasses PCIe.
LEAST_OF_FAST = 0.5

#: The relative excess of a cable over the speed of its NIC that rounding explains.
ROUNDING = 0.05

#: The greatest of the port of a NIC.
MOST_OF_PORT = 400.0


def review(topology: Topology) -> None:
    """Add warnings for implausible speeds, and for what no link reaches."""
    for link in topology.links:
        _review_link(topology, link)
    for nic in topology.devices(Kind.NIC):
        speed = nic.attributes.get("speed")
        if speed is not None and speed > MOST_OF_PORT:
            topology.warn(f"{nic.id}: {speed:g} GB/s is more than any port carries")
        if speed is not None:
            _review_cables(topology, nic.id, speed)
    _review_hosts(topology)
    for switch in topology.devices(Kind.PCI):
        _review_uplink(topology, switch.id)
    ids = [device.id for device in topology.devices()]
    unlinked = [id for id in ids if not topology.neighbours(id)]
    if len(ids) > 1:
        for id in unlinked[:20]:
            topology.warn(f"{id} has no link")
        if len(unlinked) > 20:
            topology.warn(f"{len(unlinked) - 20} other devices have no link")


def _review_cables(topology: Topology, nic: str, speed: float) -> None:
    """Warn of a cable that is faster than the NIC at its end."""
    for link in topology.links_of(nic):
        each = (link.bandwidth or 0.0) / link.count
        if link.kind is LinkKind.NETWORK and each > speed * (1 + ROUNDING):
            topology.warn(
                f"{link}: {each:g} GB/s is more than the {speed:g} GB/s of {nic}; "
                "check the unit"
            )


def _review_hosts(topology: Topology) -> None:
    """Warn of a host that no link joins to others, if some hosts are joined."""
    host = {d.id: d.host or d.id for d in topology.devices()}
    apart = {
        host[end]
        for link in topology.links
        if host[link.ends[0]] != host[link.ends[1]]
        for end in link.ends
    }
    alone = [name for name in topology.hosts if name not in apart]
    if apart.intersection(topology.hosts) and alone:
        topology.warn(f"{fold(alone)}: no link leads to another host")


def _review_uplink(topology: Topology, switch: str) -> None:
    """Warn of an uplink that is much slower than all links below it."""
    up: list[Link] = []
    down: list[Link] = []
    for link in topology.links_of(switch):
        if link.kind is LinkKind.PCIE and link.bandwidth:
            above = topology.device(link.other(switch)).kind in (Kind.CPU, Kind.ROOT)
            (up if above else down).append(link)
    for link in up:
        least = min((below.bandwidth or 0.0 for below in down), default=0.0)
        if link.bandwidth is not None and 2 * link.bandwidth < least:
            topology.warn(
                f"{link}: {link.bandwidth:.3g} GB/s upwards is less than half of the "
                f"{least:.3g} GB/s of each device below"
            )


def _review_link(topology: Topology, link: Link) -> None:
    if link.bandwidth is not None:
        each = link.bandwidth / link.count
        is_slow = link.kind in FAST and each < LEAST_OF_FAST
        if is_slow or each > MOST[link.kind]:
            topology.warn(
                f"{link}: {each:g} GB/s is {'less' if is_slow else 'more'} than any "
                "such cable carries; check the unit"
            )
    if link.latency is not None and link.latency > 1.0:
        topology.warn(f"{link}: a latency of {link.latency:g} s is implausible")
