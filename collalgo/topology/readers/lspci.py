"""The output of ``lspci -PP``: every device with the bridges above it."""

import re

from collalgo.topology.model import Kind, LinkKind, Topology

ADDRESS = r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
LINE = re.compile(
    rf"({ADDRESS}(?:/{ADDRESS})*) ([A-Z0-9][^:]{{2,60}}): (.*)", re.IGNORECASE
)

#: The kinds of devices by the names of their classes.
ROLES = {
    "3D controller": Kind.GPU,
    "VGA compatible controller": Kind.GPU,
    "Display controller": Kind.GPU,
    "Processing accelerators": Kind.GPU,
    "Ethernet controller": Kind.NIC,
    "Infiniband controller": Kind.NIC,
    "Network controller": Kind.NIC,
    "Fabric controller": Kind.NIC,
}
CONSOLES = re.compile(r"Matrox|ASPEED|ES1000", re.IGNORECASE)


def recognises(text: str) -> bool:
    """Lines that begin with a path of bus addresses."""
    return bool(
        re.search(rf"^{ADDRESS}/{ADDRESS} ", text, re.MULTILINE | re.IGNORECASE)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology: a tree of bridges below one CPU."""
    paths = []
    for line in text.splitlines():
        found = LINE.match(line.strip())
        if found and found[2].strip() in ROLES and not CONSOLES.search(found[3]):
            paths.append((found[1].lower().split("/"), ROLES[found[2]], found[3]))
    below: dict[str, set[str]] = {}
    for path, _, _ in paths:
        for i in range(len(path) - 1):
            below.setdefault("/".join(path[: i + 1]), set()).add(path[i + 1])
    for path, kind, name in paths:
        _device(topology, path, kind, name, below)
    if paths:
        topology.warn("lspci gives neither link speeds nor NUMA nodes")


def _device(
    topology: Topology,
    path: list[str],
    kind: Kind,
    name: str,
    below: dict[str, set[str]],
) -> None:
    parent = _domain(topology, path[0])
    for i in range(1, len(path)):
        bridge = "/".join(path[:i])
        if len(below[bridge]) > 1:  # a switch, not a port with one device behind it
            parent = _bridge(topology, path[i - 1], parent)
    number = len(topology.devices(kind))
    id = topology.add(
        f"host0/{kind.value}{number}", kind, host="host0", name=name, busid=path[-1]
    )
    topology.link(id, parent, LinkKind.PCIE)


def _domain(topology: Topology, address: str) -> str:
    """The host bridge of a root port, identified by its domain and bus."""
    bus = address.rsplit(":", 1)[0]
    for device in topology.devices(Kind.ROOT):
        if device.attributes["bus"] == bus:
            return device.id
    cpu = "host0/cpu0"
    if cpu not in topology.graph:
        topology.add(cpu, Kind.CPU, host="host0")
    number = len(topology.devices(Kind.ROOT))
    root = topology.add(f"host0/root{number}", Kind.ROOT, host="host0", bus=bus)
    topology.link(root, cpu, LinkKind.PCIE)
    return root


def _bridge(topology: Topology, address: str, parent: str) -> str:
    for device in topology.devices(Kind.PCI):
        if device.attributes.get("busid") == address:
            return device.id
    number = len(topology.devices(Kind.PCI))
    bridge = topology.add(f"host0/pci{number}", Kind.PCI, host="host0", busid=address)
    topology.link(bridge, parent, LinkKind.PCIE)
    return bridge
