"""Groups of devices: NVLink domains, NUMA nodes, sockets, hosts and racks."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from collalgo.base.hostlist import fold
from collalgo.errors import TopologyError
from collalgo.topology.link_index import LinkIndex
from collalgo.topology.model import FAST, Device, Kind, LinkKind, Topology
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import nearest
from collalgo.topology.places import ranks_of
from collalgo.topology.wiring import connected


class Level(NamedTuple):
    """A level of a hierarchy: its name, and its partition of the GPUs.

    Without known GPUs, it is a partition of the cores or hosts.
    """

    name: str
    parts: tuple[tuple[str, ...], ...]


def fast_domains(topology: Topology) -> list[tuple[str, ...]]:
    """The groups of GPUs that NVLink or xGMI joins, also through NVSwitches.

    Returns
    -------
    list of tuple of str
        The ids of GPUs, largest group first; a GPU without such links is a group.
    """
    ids = dict.fromkeys(d.id for d in topology.devices(Kind.GPU, Kind.NVSWITCH))
    fast = (
        link.ends
        for link in topology.links
        if link.kind in FAST and all(end in ids for end in link.ends)
    )
    order = {d.id: i for i, d in enumerate(topology.devices(Kind.GPU))}
    groups = [
        tuple(sorted((id for id in part if id in order), key=order.__getitem__))
        for part in connected(ids, fast)
    ]
    return sorted((g for g in groups if g), key=lambda g: (-len(g), order[g[0]]))


def numa_nodes(topology: Topology, ids: Iterable[str]) -> dict[str, str | None]:
    """The NUMA node nearest to each of some devices; None if unknown."""
    index = LinkIndex(topology)
    component = index.parts(PathType.NODE)
    cpus: dict[str, list[str]] = defaultdict(list)
    for cpu in topology.devices(Kind.CPU):
        cpus[component[cpu.id]].append(cpu.id)
    found: dict[str, str | None] = {}
    for id in ids:
        paths = nearest(index, id, cpus[component[id]], PathType.NODE)
        near = ((len(path.links), cpu) for cpu, path in paths.items())
        _, found[id] = min(near, default=(0, None))
    return found


def devices_by_host(topology: Topology, *kinds: Kind) -> dict[str, list[Device]]:
    """The devices of some kinds, or all, of each host in their order, in one pass."""
    found: dict[str, list[Device]] = defaultdict(list)
    for device in topology.devices(*kinds):
        found[device.host].append(device)
    return found


def host_of(topology: Topology, member: str) -> str:
    """The host of a device; a host is its own."""
    return (member in topology and topology.device(member).host) or member


def host_named(topology: Topology, name: str | None) -> str:
    """The host of a name, or the first without a name; "" without hosts.

    Raises
    ------
    TopologyError
        If no host has the name.
    """
    hosts = topology.hosts
    if name is not None and name not in hosts:
        known = fold(hosts[:1000])[:200] or "(none)"
        raise TopologyError(
            f"{topology.name}: there is no host {name!r}; the hosts are {known}"
        )
    return next(iter(hosts), "") if name is None else name


def levels(topology: Topology) -> list[Level]:
    """The levels of the machine, from the innermost to the outermost.

    They partition the ranks: NUMA nodes, sockets, NVLink domains, hosts,
    and then the levels of switches: racks, pods, "level 3" and so on. A level that
    repeats the one before is omitted, except NVLink domains and hosts; so is a level of
    single devices.
    """
    members = ranks_of(topology)
    hosts = [device.id for device in topology.devices(Kind.HOST)]
    host = {m: host_of(topology, m) for m in members}
    found = []
    if members != hosts:
        nodes = numa_nodes(topology, members)
        numa = {m: nodes[m] or host[m] for m in members}
        sockets = {cpu.id: _socket(cpu.host, cpu) for cpu in topology.devices(Kind.CPU)}
        domains = {m: m for m in members}
        domains |= {g: part[0] for part in fast_domains(topology) for g in part}
        found.append(("numa", numa))
        found.append(("socket", {m: sockets.get(numa[m], numa[m]) for m in members}))
        found.append(("nvlink", domains))
    found.append(("host", host))
    names = ("rack", "pod")
    for i, switch_of in enumerate(_switch_levels(topology)):
        name = names[i] if i < len(names) else f"level {i + 1}"
        found.append((name, {m: switch_of.get(host[m], host[m]) for m in members}))
    return _distinct(members, found)


def _socket(host: str, cpu: object) -> str:
    attributes = getattr(cpu, "attributes", {})
    return f"{host}/socket{attributes.get('socket', attributes.get('numa', cpu))}"


def _distinct(
    members: list[str], found: list[tuple[str, dict[str, str]]]
) -> list[Level]:
    """The partitions by labels, without those that repeat the one before."""
    result: list[Level] = []
    for name, label in found:
        parts: dict[str, list[str]] = defaultdict(list)
        for member in members:
            parts[label[member]].append(member)
        level = Level(name, tuple(tuple(part) for part in parts.values()))
        if len(level.parts) == len(members) and name != "host":
            continue
        new = not result or level.parts != result[-1].parts
        if new or name in ("nvlink", "host"):
            result.append(level)
    return result


def _switch_levels(topology: Topology) -> list[dict[str, str]]:
    """For each level of switches, the first switch above each host."""
    above: dict[str, str] = {}
    for link in topology.links:
        if link.kind is LinkKind.NETWORK:
            for end in link.ends:
                device, other = topology.device(end), topology.device(link.other(end))
                if other.kind is Kind.SWITCH and device.kind is not Kind.SWITCH:
                    above.setdefault(device.host or device.id, other.id)
    result = []
    distance = distance_from_hosts(topology)
    while above:
        result.append(dict(above))
        above = {
            host: up
            for host, switch in above.items()
            if (up := _upward(topology, switch, distance)) is not None
        }
    return [
        level for level in result if len(set(level.values())) < len(level)
    ] or result


def distance_from_hosts(topology: Topology) -> dict[str, int]:
    """The number of links from each switch to the nearest host."""
    leaves = [d.id for d in topology.devices() if d.kind is not Kind.SWITCH]
    found, front = dict.fromkeys(leaves, 0), set(leaves)
    for distance in count(1):
        near = {other for id in front for other in topology.neighbours(id)}
        if not (front := near - found.keys()):
            break
        found |= dict.fromkeys(front, distance)
    return found


def _upward(topology: Topology, switch: str, distance: dict[str, int]) -> str | None:
    """The first adjacent switch that is farther from the hosts."""
    higher = [
        link.other(switch)
        for link in topology.links_of(switch)
        if distance.get(link.other(switch), 0) > distance.get(switch, 0)
    ]
    return min(higher, default=None)
