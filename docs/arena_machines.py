"""The machines of docs/arena.md, as they were published."""

from collalgo import Topology
from collalgo.topology.fabrics import Cable, nodes_of, star, wire
from collalgo.topology.model import Kind, LinkKind

GIB = 1 << 30

#: The xGMI links of 50 GB/s between the 16 GPUs of a server with MI250, as ForestColl
#: gives them (liangyuRain/ForestColl, topologies.py): pairs and numbers of links.
XGMI = (
    "0-1*4 0-4*2 0-8 1-5 1-9 1-10 2-3*4 2-6 2-9 2-10 3-7*2 3-11 4-5*4 4-6 5-6 5-7 "
    "6-7*4 8-9*4 8-12*2 9-13 10-11*4 10-14 11-15*2 12-13*4 12-14 13-14 13-15 14-15*4"
)


def mi250(hosts: int) -> Topology:
    """Servers with 16 MI250 GPUs, each with 16 GB/s to one switch."""
    topology = Topology(f"{hosts} x mi250", "built")
    switch = topology.add("switch", Kind.SWITCH)
    for host in (f"host{number}" for number in range(hosts)):
        gpus = [topology.add(f"{host}/gpu{i}", Kind.GPU, host=host) for i in range(16)]
        for gpu in gpus:
            wire(topology, gpu, switch, Cable(16.0, 0.0))
        for pair in XGMI.split():
            ends, _, number = pair.partition("*")
            a, b = (gpus[int(end)] for end in ends.split("-"))
            wire(topology, a, b, Cable(50.0, 0.0), int(number or 1), LinkKind.XGMI)
    return topology


def uneven_mesh(
    width: int, height: int, across: float, down: float, latency: float
) -> Topology:
    """A mesh with other links along its rows than along its columns, in GiB/s."""
    topology = Topology(
        f"mesh {width}x{height}, {across:g} and {down:g} GiB/s", "built"
    )
    nodes = [*nodes_of(topology, width * height)]
    for place, node in enumerate(nodes):
        if (place + 1) % width:
            cable = Cable(across * GIB / 1e9, latency)
            wire(topology, node, nodes[place + 1], cable)
        if place + width < len(nodes):
            wire(topology, node, nodes[place + width], Cable(down * GIB / 1e9, latency))
    return topology


def one_switch(hosts: int) -> Topology:
    """Hosts of one rank on one switch that does not block."""
    topology = Topology(f"{hosts} hosts on one switch", "built")
    star(topology, [*nodes_of(topology, hosts)], "switch", Cable(25.0, 0.0))
    return topology
