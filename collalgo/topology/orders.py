"""Orders of ranks for rings, tori and rails.

An order is a list of the ids of the devices of ranks; the rank of a device is
its position in the list.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from math import inf

from collalgo.topology.affinity import assignment, rails
from collalgo.topology.domains import host_of, levels
from collalgo.topology.model import Kind, Topology
from collalgo.topology.places import ranks_of
from collalgo.topology.rings import rings


def host_order(topology: Topology) -> list[str]:
    """The hosts, with those that share a switch adjacent, level by level.

    A rank on a device without a host counts as a host.
    """
    of_ranks = (host_of(topology, rank) for rank in ranks_of(topology))
    hosts = list(dict.fromkeys([*topology.hosts, *of_ranks]))
    position: dict[str, tuple[int, ...]] = dict.fromkeys(hosts, ())
    for level in reversed(levels(topology)):
        if level.name in ("numa", "socket", "nvlink", "host"):
            continue
        for i, part in enumerate(level.parts):
            for member in part:
                host = host_of(topology, member)
                position[host] = (
                    (*position[host], i) if len(position[host]) < 9 else position[host]
                )
    return sorted(hosts, key=position.__getitem__)


def ring_order(topology: Topology) -> list[str]:
    """The order for a ring: the fastest ring of each host, host after host."""
    return [rank for row in torus_order(topology) for rank in row]


def narrow_last(topology: Topology, devices: Sequence[str]) -> list[str]:
    """Sort ranks stably by decreasing bandwidth to their hosts.

    A link of unknown bandwidth counts as unlimited.
    """
    width: dict[str, float] = defaultdict(float)
    for link in topology.links:
        a, b = (host_of(topology, end) for end in link.ends)
        if a != b:
            for host in (a, b):
                width[host] += inf if link.bandwidth is None else link.bandwidth
    return sorted(devices, key=lambda device: -width[host_of(topology, device)])


def torus_order(topology: Topology) -> list[list[str]]:
    """Rows and columns for a 2D torus: a row for each host, along its fastest ring.

    A column has the GPUs at the same position on all hosts, so that with a NIC per GPU
    it stays on one rail. Hosts of unequal size give rows of unequal length.
    """
    ranks: dict[str, list[str]] = defaultdict(list)
    for rank in ranks_of(topology):
        ranks[host_of(topology, rank)].append(rank)
    if not topology.devices(Kind.GPU):
        return [ranks[host] for host in host_order(topology)]
    by_numa = cache(partial(_by_numa, topology))  # of all hosts, if one has no ring

    def along_ring(gpus: list[str]) -> list[str]:
        found = rings(topology, tuple(gpus)) if gpus else []
        return (
            list(found[0].order) if found else sorted(gpus, key=by_numa().__getitem__)
        )

    return [along_ring(ranks[host]) for host in host_order(topology)]


def rail_order(topology: Topology, rail: int = 0) -> list[str]:
    """The order for a ring that goes from host to host along a rail.

    The ring of a host begins at the GPU that owns the NIC of the rail; every other host
    is traversed backwards, so that both ends of each crossing use one rail.
    """
    groups = rails(topology)
    on_rail = set(groups[rail % len(groups)]) if groups else set()
    owners = {
        gpu for gpu, nics in assignment(topology).items() if on_rail.intersection(nics)
    }
    order: list[str] = []
    for i, row in enumerate(torus_order(topology)):
        start = next((k for k, gpu in enumerate(row) if gpu in owners), 0)
        ring = row[start:] + row[:start]
        order += ring[::-1] if i % 2 else ring
    return order


def _by_numa(topology: Topology) -> dict[str, tuple[int, ...]]:
    """Keys that sort GPUs of a PCIe switch or NUMA node next to each other."""
    parts: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for level in reversed(levels(topology)):
        for i, part in enumerate(level.parts):
            for member in part:
                parts[member] = (*parts[member], i)
    return parts
