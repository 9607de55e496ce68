"""The affinity of GPUs and NICs, and the rails that NICs form."""

import math
from collections import defaultdict
from collections.abc import Sequence

from collalgo.topology.domains import devices_by_host
from collalgo.topology.link_index import LinkIndex
from collalgo.topology.model import Device, Kind, LinkKind, Topology
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import paths_in


def nearest_nics(topology: Topology, gpu: str) -> list[str]:
    """The nearest NICs of a GPU on its host, including ties.

    More bandwidth comes first, then the better type of path, as in NCCL. If a bandwidth
    is unknown, only the type counts.

    Returns
    -------
    list of str
        The ids of NICs in the order of the topology; empty without NICs.
    """
    host = topology.device(gpu).host
    nics = topology.devices(Kind.NIC, host=host)
    return _nearest_of(LinkIndex(topology), gpu, nics)


def _nearest_of(index: LinkIndex, gpu: str, nics: Sequence[Device]) -> list[str]:
    """The nearest of the NICs of a host."""
    paths = paths_in(index, gpu, [nic.id for nic in nics], PathType.SYS)
    reached = {nic: paths[nic.id] for nic in nics if nic.id in paths}
    known = all(path.bandwidth is not None for path in reached.values())
    keys = {
        nic.id: (_usable(nic, path.bandwidth) if known else 0.0, path.type)
        for nic, path in reached.items()
    }
    best = min(keys.values(), default=None)
    return [id for id, key in keys.items() if key == best]


def _usable(nic: Device, bandwidth: float | None) -> float:
    """The negative bandwidth to a NIC, limited by its port; to be minimised."""
    speed = nic.attributes.get("speed")
    narrowest = min(bandwidth or 0.0, math.inf if speed is None else speed)
    return -round(narrowest, 6)


def assignment(
    topology: Topology, devices: Sequence[Device] | None = None
) -> dict[str, list[str]]:
    """Assign NICs to devices, so that those with the same nearest NICs share them.

    Parameters
    ----------
    topology
        The topology.
    devices
        Some devices; by default all GPUs.
    """
    index = LinkIndex(topology)
    nics_of = devices_by_host(topology, Kind.NIC)
    sharers: dict[tuple[str, ...], list[str]] = defaultdict(list)
    devices = topology.devices(Kind.GPU) if devices is None else devices
    for one in devices:
        place = _place_of(topology, one)
        sharers[tuple(_nearest_of(index, place, nics_of[one.host]))].append(one.id)
    found: dict[str, list[str]] = {}
    for nics, ids in sharers.items():
        found |= zip(ids, shares(nics, len(ids)), strict=True)
    return {one.id: found[one.id] for one in devices}


def _place_of(topology: Topology, device: Device) -> str:
    """Where paths to NICs begin: at the CPU of a core, whose memory it shares."""
    others = (link.other(device.id) for link in topology.links_of(device.id))
    cpus = [other for other in others if topology.device(other).kind is Kind.CPU]
    return cpus[0] if device.kind is Kind.CORE and cpus else device.id


def shares(nics: Sequence[str], count: int) -> list[list[str]]:
    """The share of each of ``count`` devices in some NICs, ceil(N / count) of the N.

    >>> shares(["eth0", "eth1"], 4)
    [['eth0'], ['eth0'], ['eth1'], ['eth1']]
    >>> shares(["eth0", "eth1", "eth2"], 2)
    [['eth0', 'eth1'], ['eth1', 'eth2']]
    """
    each = math.ceil(len(nics) / count)
    starts = (i * len(nics) // count for i in range(count))
    return [[nics[(start + k) % len(nics)] for k in range(each)] for start in starts]


def rails(topology: Topology) -> list[tuple[str, ...]]:
    """The groups of NICs of different hosts that one leaf switch joins.

    NICs without a switch are grouped by their number on each host.
    """
    groups: dict[object, list[str]] = defaultdict(list)
    numbers: dict[str, int] = defaultdict(int)
    for nic in topology.devices(Kind.NIC):
        leaves = sorted(
            link.other(nic.id)
            for link in topology.links_of(nic.id)
            if link.kind is LinkKind.NETWORK
        )
        declared = nic.attributes.get("rail")
        groups[declared or tuple(leaves) or numbers[nic.host]].append(nic.id)
        numbers[nic.host] += 1
    return [tuple(group) for group in groups.values()]


def is_rail_optimised(topology: Topology) -> bool:
    """Whether leaf switches join NICs of different hosts, and never two of one host."""
    groups = rails(topology)
    hosts = [[topology.device(nic).host for nic in group] for group in groups]
    apart = all(len(set(group)) == len(group) for group in hosts)
    return apart and any(len(group) > 1 for group in hosts)
