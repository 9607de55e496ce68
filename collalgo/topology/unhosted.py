"""The hosts of devices for which a file gives none."""

from dataclasses import replace

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.wiring import connected

#: The kinds of devices that are inside of a host.
INSIDE = (Kind.GPU, Kind.NIC, Kind.PCI, Kind.CARD, Kind.ROOT, Kind.CPU, Kind.CORE)


def add_hosts(topology: Topology) -> None:
    """Put devices without a host on the host of the devices linked to them.

    Network links do not count. Without any host, the first part of their ids is one, as
    in ``host0/gpu3``, or else they are a host together. Each is a warning. A GPU that
    has network links only stays alone, as a host of its own.
    """
    bare = [d.id for d in topology.devices(*INSIDE) if not d.host]
    links = topology.links if bare else []
    inside = (link.ends for link in links if link.kind is not LinkKind.NETWORK)
    for part in connected(bare, inside):
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
        topology.put(replace(topology.device(id), host=host))
    some = ", ".join(ids[:4]) + (f" and {len(ids) - 4} others" if len(ids) > 4 else "")
    topology.warn(f"{some}: the file gives no host; {host} is assumed")
