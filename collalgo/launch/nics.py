"""The NICs of each rank: those near it, so that the ranks of a host use all of them.

UCX takes the same NIC for all ranks of a host if it finds several equal ones, and the
others stay idle. Among devices of RDMA it chooses by their distance itself; if some
hosts have such devices and others do not, it chooses on all hosts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collalgo.bootstrap.interfaces import Port
from collalgo.errors import TopologyError
from collalgo.launch.network import HostNetwork
from collalgo.topology.affinity import assignment, shares
from collalgo.topology.model import Kind, Topology


def shown(shares: Sequence[Sequence[str]]) -> str:
    """The interfaces of each rank of a host in words; empty if the engine chooses.

    >>> shown([["eth0"], ["eth0"], ["eth1", "eth2"]])
    'eth0; eth0; eth1, eth2'
    """
    return "; ".join(map(", ".join, shares)) if any(shares) else ""


class HostNics(NamedTuple):
    """What is known of the NICs of a host.

    Attributes
    ----------
    network : HostNetwork
        By which interfaces it is reached.
    ports : sequence of Port
        Its interfaces, in their order; none if the engine chooses itself.
    ranks : int
        The number of its ranks.
    """

    network: HostNetwork
    ports: Sequence[Port]
    ranks: int

    def equal(self, *, named: bool) -> list[Port]:
        """The best of the interfaces that work, which are equal, in order of NUMA.

        All of them count if the user has ``named`` them.
        """
        working = {each.name for each in self.network.working}
        found = [port for port in self.ports if port.name in working]
        best = max(((p.is_device, p.megabits) for p in found), default=None)
        if not named:
            found = [p for p in found if (p.is_device, p.megabits) == best]
        return sorted(found, key=lambda port: port.numa)


def nics_of_ranks(
    hosts: Sequence[HostNics], described: Path | None = None, *, named: bool = False
) -> list[list[list[str]]]:
    """The interfaces of each rank of each host; empty if the engine is to choose.

    Parameters
    ----------
    hosts
        The hosts.
    described
        A file with the topology of the job, whose ranks are on its cores.
    named
        Whether the user has named the interfaces that are used.
    """
    chosen = [each.equal(named=named) for each in hosts]
    with_ports = sum(1 for each in hosts if each.ports)
    if 0 < with_ports < len(hosts) or not _all_reach_all(hosts, chosen):
        return [[[]] * each.ranks for each in hosts]
    near = _described(hosts, chosen, described) if described else None
    found: list[list[list[str]]] = []
    for number, (host, nics) in enumerate(zip(hosts, chosen, strict=True)):
        every: list[list[str]] = [[] for _ in range(host.ranks)]
        if len(nics) > 1:
            every = shares([nic.name for nic in nics], host.ranks)
        found.append((near and near[number]) or every)
    return found


def _all_reach_all(hosts: Sequence[HostNics], chosen: Sequence[Sequence[Port]]) -> bool:
    """Whether each interface has a route to those of all other hosts, as UCX asks.

    It does not matter if no host has several.
    """
    if max(map(len, chosen)) <= 1:
        return True
    addresses = [
        {each.address for each in host.network.working if each.name in names}
        for host, nics in zip(hosts, chosen, strict=True)
        for names in [{nic.name for nic in nics}]
    ]
    everywhere = set[str]().union(*addresses)
    unreached: dict[tuple[tuple[int, ...], ...], set[str]] = {}
    for nics, own in zip(chosen, addresses, strict=True):
        for nic in nics:
            key = tuple(map(tuple, nic.networks))
            if key not in unreached:
                unreached[key] = {a for a in everywhere if not nic.has_route(a)}
            if unreached[key] - own:
                return False
    return True


def _described(
    hosts: Sequence[HostNics], chosen: Sequence[Sequence[Port]], file: Path
) -> list[list[list[str]]] | None:
    """The interfaces nearest to the cores of ranks; None if the file cannot tell."""
    try:
        topology = Topology.read(file)
    except (OSError, TopologyError):  # which the ranks themselves will say
        return None
    names = [each.network.host for each in hosts]
    names = names if {*names} <= {*topology.hosts} else topology.hosts
    found = []
    for host, nics, name in zip(hosts, chosen, names, strict=False):
        ids = [nic.id for nic in topology.devices(Kind.NIC, host=name)]
        cores = topology.devices(Kind.CORE, host=name)[: host.ranks]
        if len(ids) != len(nics) or len(cores) < host.ranks:
            return None
        ordered = [nic.name for nic in host.ports if nic in nics]
        interface = dict(zip(ids, ordered, strict=True))
        near = assignment(topology, cores)
        found.append([[interface[nic] for nic in near[core.id]] for core in cores])
    return found if len(found) == len(hosts) else None
