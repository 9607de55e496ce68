"""A topology as text: a tree of its devices, and the matrix of its paths."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.text import Text
from rich.tree import Tree

from collalgo.base.hostlist import fold, natural_order
from collalgo.base.units import counted
from collalgo.errors import TopologyError
from collalgo.topology.assumed import marked
from collalgo.topology.domains import devices_by_host, host_named
from collalgo.topology.model import FAST, Device, Kind, Link, LinkKind, Topology
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import best_path, paths_from

#: The prefix of the number of links in a cell of the matrix; nvidia-smi has "NV".
LETTERS = {LinkKind.NVLINK: "NV", LinkKind.XGMI: "XG", LinkKind.ICI: "IC"}


def tree(topology: Topology) -> Tree:
    """A tree of the hosts with their devices, and of the network."""
    root = Tree(Text.assemble((topology.name, "bold"), f"  {topology.source}"))
    for alike in _alike(topology):
        branch = root.add(Text(_shortened(fold(alike)), "bold"))
        _Hosts(topology, alike).show(branch)
    _network(root, topology)
    for text in topology.warnings:
        root.add(Text.assemble(("warning", "yellow"), f": {text}"))
    return root


def speed(link: Link) -> str:
    """The speed of a link, as "nvlink 2 x 25 GB/s", marked if assumed."""
    each = None if link.bandwidth is None else link.bandwidth / link.count
    figure = "?" if each is None else f"{each:.4g}"
    count = f"{link.count} x " if link.count > 1 else ""
    return f"{link.kind.value} {count}{figure} GB/s{marked(link.assumed)}"


def _alike(topology: Topology) -> list[list[str]]:
    """The hosts with known devices, grouped by equal contents."""
    found: dict[tuple[str, ...], list[str]] = {}
    links: dict[str, list[str]] = {}
    for link in topology.links:
        hosts = {topology.device(end).host for end in link.ends}
        if len(hosts) == 1:
            host = hosts.pop()
            ends = "-".join(end.removeprefix(f"{host}/") for end in link.ends)
            links.setdefault(host, []).append(f"{ends} {speed(link)}")
    of_hosts = devices_by_host(topology)
    for host in topology.hosts:
        devices = ["  ".join([_short(device), *_facts(device)])
                   for device in of_hosts[host]]  # fmt: skip
        if devices:
            found.setdefault((*devices, *links.get(host, ())), []).append(host)
    return list(found.values())


class _Hosts:
    """Hosts of equal contents, shown as the first of them."""

    def __init__(self, topology: Topology, hosts: list[str]):
        self.topology = topology
        self.hosts = hosts
        self.shown: set[str] = set()

    def show(self, branch: Tree) -> None:
        """Add the devices, those below a CPU first."""
        devices = self.topology.devices(host=self.hosts[0])
        for device in (*(d for d in devices if d.kind is Kind.CPU), *devices):
            if device.id not in self.shown and device.kind is not Kind.CORE:
                self._below(branch, device, None)  # cores are a line of their CPU

    def _below(self, branch: Tree, device: Device, by: Link | None) -> None:
        """Add a device with its links other than PCIe, and the devices below it."""
        self.shown.add(device.id)
        label = Text("  ".join([_short(device), *_facts(device)]))
        if by is not None:
            label.append("  ").append(speed(by), "dim")
        node = branch.add(label)
        for text in (*_others(self.topology, device, True), *self._outside(device)):
            node.add(Text(text, "cyan"))
        for link in self.topology.links_of(device.id):
            other = self.topology.device(link.other(device.id))
            if link.kind is LinkKind.PCIE and other.id not in self.shown:
                self._below(node, other, link)

    def _outside(self, device: Device) -> Iterator[str]:
        """The links to other hosts and to switches, and their hosts."""
        of: dict[str, list[str]] = {}
        for host in self.hosts:
            twin = f"{host}/{_short(device)}" if len(self.hosts) > 1 else device.id
            for text in _others(self.topology, self.topology.device(twin), False):
                of.setdefault(text, []).append(host)
        for text, hosts in of.items():
            all_of = len(hosts) == len(self.hosts)
            yield text if all_of else f"{_shortened(fold(hosts))}: {text}"


def _short(device: Device) -> str:
    return device.id.removeprefix(f"{device.host}/")


def _facts(device: Device) -> Iterator[str]:
    if device.name:
        yield device.name
    if device.attributes.get("busid"):
        yield str(device.attributes["busid"])
    if device.kind is Kind.NIC and device.attributes.get("speed"):
        yield f"port {device.attributes['speed']:g} GB/s"
    if device.attributes.get("ranks"):
        yield f"ranks {', '.join(map(str, device.attributes['ranks']))}"


def _others(topology: Topology, device: Device, inside: bool) -> Iterator[str]:
    """The links of a device but PCIe, inside or out of its host; equal ones as one."""
    alike: dict[str, list[str]] = {}
    for link in topology.links_of(device.id):
        other = topology.device(link.other(device.id))
        is_inside = other.host == device.host
        if link.kind is not LinkKind.PCIE and is_inside == inside:
            name = _short(other) if is_inside else other.id
            alike.setdefault(speed(link), []).append(name)
    for text, names in alike.items():
        yield f"{text} to {fold(sorted(names, key=natural_order))}"


def _network(root: Tree, topology: Topology) -> None:
    """Add the switches, grouped by their links, and the hosts without known devices."""
    for kind in Kind:
        alone = [device.id for device in topology.devices(kind, host="")]
        if alone and kind is not Kind.SWITCH:
            shortened = _shortened(fold(alone))
            root.add(Text(f"{counted(len(alone), kind.value)}: {shortened}"))
    alike: dict[str, list[str]] = {}
    for switch in topology.devices(Kind.SWITCH):
        counts: Counter[str] = Counter()
        for link in topology.links_of(switch.id):
            other = topology.device(link.other(switch.id))
            counts[f"{other.kind.value} by {speed(link)}"] += 1
        text = ", ".join(f"{n} {what}" for what, n in counts.items())
        alike.setdefault(text, []).append(switch.id)
    for text, names in alike.items():
        plural = "es" if len(names) > 1 else ""
        shown = _shortened(fold(names))
        root.add(Text(f"{len(names)} switch{plural} {shown}: {text}"))


def _shortened(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def matrix(topology: Topology, host: str | None = None) -> str:
    """The paths between GPUs and NICs of a host, in the form of ``nvidia-smi topo -m``.

    Parameters
    ----------
    topology
        The machine.
    host
        The name of the host; by default the first.

    Raises
    ------
    TopologyError
        If there is no such host, or it has no GPUs and no NICs.
    """
    host = host_named(topology, host)
    devices = topology.devices(Kind.GPU, Kind.NIC, host=host)
    if not devices:
        raise TopologyError(f"{topology.name}: host {host!r} has no GPUs and no NICs")
    gpus = [d for d in devices if d.kind is Kind.GPU]
    nics = [d for d in devices if d.kind is Kind.NIC]
    labels = {d.id: f"GPU{i}" for i, d in enumerate(gpus)}
    labels |= {d.id: f"NIC{i}" for i, d in enumerate(nics)}
    rows = [["", *labels.values(), "CPU Affinity", "NUMA Affinity"]]
    for device in (*gpus, *nics):
        cells = [_cell(topology, device.id, other) for other in labels]
        rows.append([labels[device.id], *cells, *_affinity(topology, device)])
    named = [f"  {labels[nic.id]}: {nic.name}" for nic in nics if nic.name]
    legend = ["", "NIC Legend:", "", *named] if named else []
    return "\n".join([*("\t".join(row).rstrip() for row in rows), *legend])


def _cell(topology: Topology, a: str, b: str) -> str:
    path = best_path(topology, a, b)
    if path.type is PathType.LOC:
        return " X "
    if path.type is PathType.NVL:
        letters = LETTERS[path.links[0].kind]
        return f"{letters}{_cables(topology, path.links, a)}"
    if path.type is PathType.NVB:  # nvidia-smi shows the path over PCIe
        others = paths_from(_without_fast(topology), a)
        return others[b].type.name if b in others else "SYS"
    return path.type.name


def _cables(topology: Topology, links: Iterable[Link], gpu: str) -> int:
    """The number of cables of a pair, or of a GPU to all of its switches."""
    links = tuple(links)
    if len(links) == 1:
        return links[0].count
    return sum(
        link.count
        for link in topology.links_of(gpu)
        if topology.device(link.other(gpu)).kind is Kind.NVSWITCH
    )


def _without_fast(topology: Topology) -> Topology:
    bare = Topology(topology.name)
    bare.copy_from(topology)
    for link in topology.links:
        if link.kind in FAST:
            bare.unlink(link)
    return bare


def _affinity(topology: Topology, device: Device) -> list[str]:
    """The cores and the NUMA node of a GPU: its own, else those of its CPU."""
    if device.kind is not Kind.GPU:
        return []
    near = paths_from(topology, device.id, PathType.NODE)
    cpus = [d for d in map(topology.device, near) if d.kind is Kind.CPU]
    known: dict[str, object] = {}
    for of in (*(cpu.attributes for cpu in cpus[:1]), device.attributes):
        known |= of
    cores = device.attributes.get("affinity") or known.get("cores") or "N/A"
    return [str(cores), str(known.get("numa_nodes", known.get("numa", "N/A")))]
