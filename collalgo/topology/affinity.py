"""Which NIC a GPU should use, and which NICs form a rail."""

import math
from collections import defaultdict

from collalgo.topology.model import Device, Kind, LinkKind, Topology
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import paths_from


def nearest_nics(topology: Topology, gpu: str) -> list[str]:
    """The NICs of its host that a GPU reaches best, all that tie.

    More bandwidth comes first, then the better type of path, as in NCCL. Where a
    bandwidth is not known the type alone decides.

    Returns
    -------
    list of str
        Ids of NICs, in the order of the topology; empty without NICs.
    """
    host = topology.device(gpu).host
    paths = paths_from(topology, gpu, PathType.SYS)
    reached = {
        nic.id: paths[nic.id]
        for nic in topology.devices(Kind.NIC, host=host)
        if nic.id in paths
    }
    known = all(path.bandwidth is not None for path in reached.values())
    keys = {
        id: (_usable(topology.device(id), path.bandwidth) if known else 0.0, path.type)
        for id, path in reached.items()
    }
    best = min(keys.values(), default=None)
    return [id for id, key in keys.items() if key == best]


def _usable(nic: Device, bandwidth: float | None) -> float:
    """What a path to a NIC carries, at most its port; negative, to be minimised."""
    speed = nic.attributes.get("speed")
    narrowest = min(bandwidth or 0.0, math.inf if speed is None else speed)
    return -round(narrowest, 6)


def assignment(topology: Topology) -> dict[str, list[str]]:
    """NICs for every GPU, so that GPUs which tie share them evenly.

    With N tied NICs for G GPUs each GPU takes ceil(N / G) of them, in turn.
    """
    rivals: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for gpu in topology.devices(Kind.GPU):
        rivals[tuple(nearest_nics(topology, gpu.id))].append(gpu.id)
    shares: dict[str, list[str]] = {}
    for nics, gpus in rivals.items():
        each = math.ceil(len(nics) / len(gpus))
        for i, id in enumerate(gpus):
            start = i * len(nics) // len(gpus)
            shares[id] = [nics[(start + k) % len(nics)] for k in range(each)]
    return {gpu.id: shares[gpu.id] for gpu in topology.devices(Kind.GPU)}


def rails(topology: Topology) -> list[tuple[str, ...]]:
    """The groups of NICs of different hosts that one leaf switch joins.

    Where NICs are linked to no switch, those of the same number on every host.
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
    """Whether no leaf switch joins two NICs of one host, and some joins two hosts."""
    groups = rails(topology)
    hosts = [[topology.device(nic).host for nic in group] for group in groups]
    apart = all(len(set(group)) == len(group) for group in hosts)
    return apart and any(len(group) > 1 for group in hosts)
