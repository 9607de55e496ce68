"""The leaf-spine network between NICs of hosts.

Bandwidths are in GB/s in each direction.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, check_oversubscription, uplinks_of, wire
from collalgo.topology.model import Kind, Topology


def leaf_spine(
    topology: Topology,
    ports: Sequence[Sequence[str]],
    *,
    rail: bool = False,
    hosts_per_leaf: int = 8,
    oversubscription: float = 1.0,
) -> None:
    """Join hosts by a two-level CLOS.

    Parameters
    ----------
    topology
        The topology of the ports.
    ports
        For each host the ids of its NICs, each of which has a cable of its speed.
    rail
        Whether each NIC of a host has another leaf (rail-optimised); else all NICs of
        a host have the same leaf.
    hosts_per_leaf
        The number of hosts of a leaf, or of a group of leaves with rails.
    oversubscription
        The bandwidth from the hosts of a leaf divided by that to the spines.

    The cables between switches have the mean speed of the NICs of the leaf.
    """
    check_oversubscription(oversubscription, topology.name)
    if hosts_per_leaf < 1:
        raise TopologyError(
            f"{topology.name}: hosts_per_leaf={hosts_per_leaf} must be at least 1"
        )
    groups = list(_by_leaf(ports, rail, hosts_per_leaf))
    leaves = [topology.add(f"leaf{i}", Kind.SWITCH) for i in range(len(groups))]
    for leaf, nics in zip(leaves, groups, strict=True):
        for nic in nics:
            speed = topology.device(nic).attributes.get("speed")
            wire(topology, nic, leaf, Cable(speed))
    if len(leaves) > 1:
        _spines(topology, leaves, groups, oversubscription)


def _spines(
    topology: Topology,
    leaves: Sequence[str],
    groups: Sequence[Sequence[str]],
    oversubscription: float,
) -> None:
    """Join leaves, each with its NICs, by spines."""
    uplinks, share = uplinks_of(max(map(len, groups)), oversubscription)
    spines = [topology.add(f"spine{i}", Kind.SWITCH) for i in range(min(uplinks, 8))]
    for leaf, nics in zip(leaves, groups, strict=True):
        cable = _mean_cable(topology, nics).narrowed(share)
        for i, spine in enumerate(spines):
            count = uplinks // len(spines) + (i < uplinks % len(spines))
            wire(topology, leaf, spine, cable, count)


def _mean_cable(topology: Topology, nics: Sequence[str]) -> Cable:
    """A cable of the mean speed of some NICs; of unknown speed if that of one is."""
    speeds = [topology.device(nic).attributes.get("speed") for nic in nics]
    known = [float(speed) for speed in speeds if speed is not None]
    return Cable(fmean(known) if len(known) == len(speeds) else None)


def _by_leaf(
    ports: Sequence[Sequence[str]], rail: bool, hosts_per_leaf: int
) -> Iterator[list[str]]:
    for start in range(0, len(ports), hosts_per_leaf):
        group = ports[start : start + hosts_per_leaf]
        if rail:
            for k in range(max(len(nics) for nics in group)):
                yield [nics[k] for nics in group if k < len(nics)]
        else:
            yield [nic for nics in group for nic in nics]
