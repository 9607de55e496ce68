"""Ranks on the cores of hosts that one switch joins."""

from collalgo import Topology
from collalgo.bootstrap.host_inventory import PlacedTopology
from collalgo.topology.elements import Kind, LinkKind

#: GB/s of the NIC of a host.
SPEED = 5.0


def ranks_on_hosts(*counts):
    """Some ranks on each host: their topology, and their cores."""
    topology, cores = Topology("hosts"), []
    switch = topology.add("switch", Kind.SWITCH)
    for number, count in enumerate(counts):
        host = f"h{number}"
        cpu = topology.add(f"{host}/cpu", Kind.CPU, host=host)
        nic = topology.add(f"{host}/nic", Kind.NIC, host=host)
        topology.link(nic, cpu, LinkKind.PCIE, 60.0)
        topology.link(nic, switch, LinkKind.NETWORK, SPEED)
        for core in range(count):
            cores.append(topology.add(f"{host}/core{core}", Kind.CORE, host=host))
            topology.link(cores[-1], cpu, LinkKind.SMP, 200.0)
    return PlacedTopology(topology, tuple(cores))
