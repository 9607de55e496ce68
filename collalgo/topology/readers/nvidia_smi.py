"""The matrix of ``nvidia-smi topo -m``: the types of the paths between devices.

The tree is inferred from the paths: devices at PIX share a PCIe switch, those at PXB a
switch above their switches, those at PHB a host bridge, those at NODE a NUMA node.
"""

import re
from collections.abc import Iterable

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import Table, plain
from collalgo.topology.readers.nvidia_smi_affinity import attributes
from collalgo.topology.readers.nvidia_smi_matrix import LINKS, NEARNESS, Matrix, read

#: The most NVLinks of a GPU; a matrix with more of them means NVSwitches.
MOST_LINKS = 18

#: The most warnings of one kind of contradiction that are listed.
MOST_LISTED = 4


def recognises(text: str) -> bool:
    """A header with GPU0, and cells that only this tool prints."""
    start = "\n".join(plain(text[: 1 << 16]))
    return bool(
        re.search(r"^[ \t]*GPU0(?![^\W\d])", start, re.MULTILINE)
        and re.search(r"\b(NV\d+|PIX|PXB|PHB|NODE|SYS|OK|CNS|GNS|TNS)|\bX\b", start)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the matrix."""
    lines = plain(text)
    found = read(lines)
    for complaint in found.warnings:
        topology.warn(complaint)
    names = dict(
        re.findall(
            r"^[ \t]*(NIC\d+):[ \t]*(\S+)[ \t]*$", "\n".join(lines), re.MULTILINE
        )
    )
    ids = _devices(found, names, topology)
    Machine(found.table, ids, topology).build()


def _devices(
    found: Matrix, names: dict[str, str], topology: Topology
) -> dict[str, str]:
    """Add the GPUs and NICs, and return their ids by their labels."""
    ids = {}
    nics = 0
    for label in found.table.labels:
        if label.startswith("GPU"):
            of_gpu = attributes(found, label, topology)
            id = topology.add(f"host0/{label.lower()}", Kind.GPU, **of_gpu)
        else:
            name = names.get(label, label)
            id = topology.add(f"host0/nic{nics}", Kind.NIC, host="host0", name=name)
            nics += 1
        ids[label] = id
    return ids


class Machine:
    """The state of inferring a machine from the paths between its devices."""

    def __init__(self, found: Table, ids: dict[str, str], topology: Topology):
        self.found = found
        self.ids = ids
        self.topology = topology
        self.cpus: dict[str, list[str]] = {}  # labels below each CPU

    def build(self) -> None:
        """Add the links, and the devices between them."""
        self._fast()
        for group in self._numa_groups():
            self._numa_node(group)
        self.topology.link_all(list(self.cpus), LinkKind.SMP)
        self._contradictions()

    def _numa_of(self, label: str) -> int | None:
        device = self.topology.device(self.ids[label])
        numa: int | None = device.attributes.get("numa")
        return numa

    def _fast(self) -> None:
        """Add NVLinks, to an NVSwitch if a GPU would need too many."""
        labels = self.found.labels
        pairs = {
            (a, b): int(cell[1])
            for i, a in enumerate(labels)
            for b in labels[i + 1 :]
            if (cell := LINKS.fullmatch(self.found.cells[a][b]))
        }
        linked = list(dict.fromkeys(gpu for pair in pairs for gpu in pair))
        of = {g: [n for pair, n in pairs.items() if g in pair] for g in linked}
        self._warn_of_bare(linked)
        if any(sum(counts) > MOST_LINKS for counts in of.values()):
            self._switched(of)
            return
        for (a, b), n in pairs.items():
            self._nvlink(self.ids[a], self.ids[b], n)

    def _warn_of_bare(self, linked: list[str]) -> None:
        gpus = [label for label in self.found.labels if label.startswith("GPU")]
        bare = [gpu for gpu in gpus if gpu not in linked]
        if linked and bare:
            self.topology.warn(
                f"{_some(bare)} without NVLinks, which the {len(linked)} other GPUs "
                "have; linked by PCIe only"
            )

    def _switched(self, of: dict[str, list[int]]) -> None:
        switch = self.topology.add("host0/nvswitch0", Kind.NVSWITCH, host="host0")
        for gpu, counts in of.items():
            n = max(counts)
            if min(counts) < n or len(counts) < len(of) - 1:
                self.topology.warn(
                    f"{gpu} has NV{min(counts)} to NV{n} to {len(counts)} of "
                    f"{len(of) - 1} GPUs; {n} links to one NVSwitch are assumed"
                )
            self._nvlink(self.ids[gpu], switch, n)

    def _nvlink(self, a: str, b: str, count: int) -> None:
        rule = ("25 GB/s for each NVLink, as the matrix gives no generation",)
        self.topology.link(
            a, b, LinkKind.NVLINK, 25.0 * count, count=count, assumed=rule
        )

    def _clusters(self, labels: list[str], nearness: str) -> list[list[str]]:
        """Clusters of devices by single linkage, up to a path type."""
        near = set(NEARNESS[: NEARNESS.index(nearness) + 1])
        clusters, left = [], dict.fromkeys(labels)
        while left:
            first = next(iter(left))
            del left[first]
            cluster = [first]
            for member in cluster:
                row = self.found.cells[member]
                reached = [other for other in left if row[other] in near]
                cluster += reached
                for other in reached:
                    del left[other]
            order = set(cluster)
            clusters.append([label for label in labels if label in order])
        return clusters

    def _numa_groups(self) -> list[list[str]]:
        """NUMA nodes: devices joined by NODE, or NVLinked GPUs of equal affinity."""
        alone: dict[tuple[str, ...], list[str]] = {}
        result = []
        for group in self._clusters(self.found.labels, "NODE"):
            affinity = tuple(self.found.rest[group[0]])
            if (
                len(group) == 1
                and affinity
                and not self._is_far_from_its_node(group[0])
            ):
                alone.setdefault(affinity, []).extend(group)
            else:
                result.append(group)
        return [*result, *alone.values()]

    def _is_far_from_its_node(self, label: str) -> bool:
        """Whether the path to another device of equal affinity is SYS."""
        found, affinity = self.found, self.found.rest[label]
        return any(
            cell == "SYS" and found.rest[other] == affinity
            for other, cell in found.cells[label].items()
        )

    def _cpu(self, group: list[str]) -> str:
        """Add the CPU of a group, by the number of its NUMA node if it is given."""
        numbers = [n for n in map(self._numa_of, group) if n is not None]
        taken = {self._numa_of(label) for label in self.found.labels}
        free = (n for n in range(len(taken) + len(self.cpus) + 1) if n not in taken)
        id = f"host0/cpu{numbers[0]}" if numbers else ""
        while not id or id in self.topology:
            id = f"host0/cpu{next(free)}"
        cores = {self.topology.device(self.ids[g]).attributes.get("affinity")
                 for g in group if g.startswith("GPU")}  # fmt: skip
        return self.topology.add(
            id,
            Kind.CPU,
            host="host0",
            numa=numbers[0] if numbers else None,
            cores=cores.pop() if len(cores) == 1 else None,
        )

    def _numa_node(self, group: list[str]) -> None:
        cpu = self._cpu(group)
        self.cpus[cpu] = group
        bridges = self._clusters(group, "PHB")
        hidden = len(self._clusters(group, "NODE")) > 1
        if hidden:
            self.topology.warn(f"NVLinks hide the PCIe links of the GPUs of {cpu}")
        for bridge in bridges:
            top = cpu
            if len(bridges) > 1 and not hidden:
                number = len(self.topology.devices(Kind.ROOT))
                top = self.topology.add(f"host0/root{number}", Kind.ROOT, host="host0")
                self.topology.link(top, cpu, LinkKind.PCIE)
            self._switches(bridge, top)

    def _switches(self, group: list[str], top: str) -> None:
        """Add the devices below a host bridge, with up to two levels of switches."""
        for outer in self._clusters(group, "PXB"):
            inner = self._clusters(outer, "PIX")
            above = top
            if len(inner) > 1:
                above = self._switch(top)
            for devices in inner:
                lone = len(devices) == 1 and above is top
                parent = above if lone else self._switch(above)
                for label in devices:
                    self.topology.link(self.ids[label], parent, LinkKind.PCIE)

    def _switch(self, parent: str) -> str:
        number = len(self.topology.devices(Kind.PCI))
        switch = self.topology.add(f"host0/pci{number}", Kind.PCI, host="host0")
        self.topology.link(switch, parent, LinkKind.PCIE)
        return switch

    def _contradictions(self) -> None:
        """Warn where paths or NUMA nodes given are not those of what was built."""
        self._warn_of_paths()
        of_node: dict[int, list[str]] = {}
        for cpu, group in self.cpus.items():
            nodes = dict.fromkeys(n for n in map(self._numa_of, group) if n is not None)
            for node in nodes:
                of_node.setdefault(node, []).append(cpu)
            if len(nodes) > 1:
                self.topology.warn(
                    f"{_some(group)} are near each other but of the NUMA nodes "
                    f"{', '.join(map(str, nodes))}; all are put on {cpu}"
                )
        for node, cpus in of_node.items():
            if len(cpus) > 1:
                self._warn_of_distance(node, cpus)

    def _warn_of_distance(self, node: int, cpus: list[str]) -> None:
        below = [label for cpu in cpus for label in self.cpus[cpu]]
        members = [label for label in below if self._numa_of(label) == node]
        self.topology.warn(
            f"{_some(members)} are of NUMA node {node} but SYS apart; they are put on "
            f"{_some(cpus)}"
        )

    def _warn_of_paths(self) -> None:
        """Warn of some pairs whose path is farther than those of others imply."""
        if wrong := self._wrong_paths():
            listed = "; ".join(wrong[:MOST_LISTED])
            more = len(wrong) - MOST_LISTED
            rest = f" and {more} others" if more > 0 else ""
            self.topology.warn(f"{listed}{rest}: the paths imply a nearer one")

    def _wrong_paths(self) -> list[str]:
        """The pairs whose path differs from the one that the other paths imply."""
        implied: dict[tuple[str, str], str] = {}
        for nearness in reversed(NEARNESS[1:-1]):
            for cluster in self._clusters(self.found.labels, nearness):
                for i, a in enumerate(cluster):
                    implied |= {(a, b): nearness for b in cluster[i + 1 :]}
        return [
            f"{a} - {b} is {cell}, taken as {near}"
            for (a, b), near in implied.items()
            if (cell := self.found.cells[a][b]) in NEARNESS and cell != near
        ]


def _some(names: Iterable[str]) -> str:
    """A few of some names."""
    known = list(names)
    rest = f" and {len(known) - MOST_LISTED} others" if len(known) > MOST_LISTED else ""
    return ", ".join(known[:MOST_LISTED]) + rest
