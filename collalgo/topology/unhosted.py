"""The hosts of devices for which a file gives none."""

from dataclasses import replace

from collalgo.topology.model import Kind, LinkKind, Topology

#: The kinds of devices that are inside of a host.
INSIDE = (Kind.GPU, Kind.NIC, Kind.PCI, Kind.CARD, Kind.ROOT, Kind.CPU, Kind.CORE)


def add_hosts(topology: Topology) -> None:
    """Put devices without a host on the host of the devices linked to them.

    Network links do not count. Without any host, the first part of their ids is one, as
    in ``host0/gpu3``, or else they are a host together. Each is a warning. A GPU that
    has network links only stays alone, as a host of its own.
    """
    import networkx as nx

    bare = [d.id for d in topology.devices(*INSIDE) if not d.host]
    near: nx.Graph[str] = nx.Graph()
    near.add_nodes_from(bare)
    if bare:
        near.add_edges_from(
            link.ends for link in topology.links if link.kind is not LinkKind.NETWORK
        )
    for part in nx.connected_components(near):
        wanting = sorted(part.intersection(bare))
        hosts = {topology.device(id).host for id in part} - {""}
        hosts |= (
            {id.partition("/")[0] for id in wanting if "/" in id}
            if not hosts
            else set()
        )
        if wanting and (len(part) > 1 or hosts) and len(hosts) < 2:
            _put(topology, wanting, hosts.pop() if hosts else _unused(topology))


def _unused(topology: Topology) -> str:
    taken = set(topology.hosts)
    return next(
        name for i in range(len(taken) + 1) if (name := f"host{i}") not in taken
    )


def _put(topology: Topology, ids: list[str], host: str) -> None:
    for id in ids:
        data = topology.graph.nodes[id]
        data["device"] = replace(data["device"], host=host)
    some = ", ".join(ids[:4]) + (f" and {len(ids) - 4} others" if len(ids) > 4 else "")
    topology.warn(f"{some}: the file gives no host; {host} is assumed")
