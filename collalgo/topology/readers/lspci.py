"""The output of ``lspci -PP``: every device with the bridges above it."""

import re
from collections import Counter
from collections.abc import Sequence

from collalgo.topology.model import Kind, LinkKind, Topology

ADDRESS = r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
LINE = re.compile(
    rf"({ADDRESS}(?:/{ADDRESS})*) ([A-Z0-9][^:]{{2,60}}): (.*)", re.IGNORECASE
)

#: The path of bus addresses that a line begins with.
PATH = re.compile(rf"{ADDRESS}/", re.IGNORECASE)

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
#: A device: the bridges above it and its address, its kind, its name.
Found = tuple[list[str], Kind, str]

CONSOLES = re.compile(r"Matrox|ASPEED|ES1000", re.IGNORECASE)


def recognises(text: str) -> bool:
    """Lines that begin with a path of bus addresses."""
    return bool(
        re.search(rf"^{ADDRESS}/{ADDRESS} ", text, re.MULTILINE | re.IGNORECASE)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology: a tree of bridges below one CPU."""
    paths: list[Found] = []
    for i, line in enumerate(text.splitlines(), 1):
        found = LINE.match(line.strip())
        if found is None and PATH.match(line):
            topology.warn(
                f"line {i}: a device without a class and a name is ignored; the line "
                "may be truncated"
            )
        if found and found[2].strip() in ROLES and not CONSOLES.search(found[3]):
            paths.append((found[1].lower().split("/"), ROLES[found[2]], found[3]))
    paths = [each for each in paths if not _is_virtual(each, paths)]
    below: dict[str, set[str]] = {}
    for path, _, _ in paths:
        for i in range(len(path) - 1):
            below.setdefault("/".join(path[: i + 1]), set()).add(path[i + 1])
    tree = Tree(topology, below)
    for path, kind, name in paths:
        tree.add(path, kind, name)
    if paths:
        topology.warn("lspci gives neither link speeds nor NUMA nodes nor NVLinks")


def _is_virtual(one: Found, others: Sequence[Found]) -> bool:
    """Whether a NIC is a virtual function (SR-IOV) of another one, as its name says."""
    path, kind, name = one
    return (
        kind is Kind.NIC
        and "virtual function" in name.lower()
        and any(
            each is Kind.NIC
            and above[:-1] == path[:-1]
            and "virtual function" not in other.lower()
            for above, each, other in others
        )
    )


class Tree:
    """The state of adding devices: the host bridges and switches by address."""

    def __init__(self, topology: Topology, below: dict[str, set[str]]):
        self.topology = topology
        self.below = below
        self.known: dict[str, str] = {}
        self.numbers: Counter[Kind] = Counter()

    def add(self, path: list[str], kind: Kind, name: str) -> None:
        """Add a device below its bridges."""
        parent = self._host_bridge(path[0])
        for i in range(1, len(path)):
            bridge = "/".join(path[:i])
            if len(self.below[bridge]) > 1:  # no port with one device behind it
                parent = self._bridge(path[i - 1], parent)
        self._device(kind, parent, name=name, busid=path[-1])

    def _device(self, kind: Kind, parent: str, **attributes: str) -> str:
        number = self.numbers[kind]
        self.numbers[kind] += 1
        id = self.topology.add(
            f"host0/{kind.value}{number}", kind, host="host0", **attributes
        )
        self.topology.link(id, parent, LinkKind.PCIE)
        return id

    def _host_bridge(self, address: str) -> str:
        """The host bridge of a root port, identified by its domain and bus."""
        bus = address.rsplit(":", 1)[0]
        if not self.known:
            self.known["cpu"] = self.topology.add("host0/cpu0", Kind.CPU, host="host0")
        if bus not in self.known:
            self.known[bus] = self._device(Kind.ROOT, self.known["cpu"], bus=bus)
        return self.known[bus]

    def _bridge(self, address: str, parent: str) -> str:
        if address not in self.known:
            self.known[address] = self._device(Kind.PCI, parent, busid=address)
        return self.known[address]
