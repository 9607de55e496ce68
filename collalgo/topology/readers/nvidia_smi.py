"""The matrix of ``nvidia-smi topo -m``: the types of the paths between devices.

The tree is inferred from the paths: devices at PIX share a PCIe switch, those at PXB a
switch above their switches, those at PHB a host bridge, those at NODE a NUMA node.
"""

import re

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import Table, plain, symmetric, table, words

#: PCI path types from the nearest to the farthest.
NEARNESS = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
LABEL = re.compile(r"(GPU|NIC)\d+$|[a-z]\w*$")
LINKS = re.compile(r"NV(\d{1,3})$")

#: The most NVLinks of a GPU; a matrix with more of them means NVSwitches.
MOST_LINKS = 18


def recognises(text: str) -> bool:
    """A header with GPU0, and cells that only this tool prints."""
    start = "\n".join(plain(text[: 1 << 16]))
    return bool(
        re.search(r"^[ \t]*GPU0\b", start, re.MULTILINE)
        and re.search(r"\b(NV\d+|PIX|PXB|PHB|NODE|SYS|OK|CNS|GNS|TNS)\b|\bX\b", start)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the matrix."""
    lines = plain(text)
    found = table(_labels(lines), lines)
    _check_cells(found)
    for complaint in symmetric(found):
        topology.warn(complaint)
    names = dict(
        re.findall(
            r"^[ \t]*(NIC\d+):[ \t]*(\S+)[ \t]*$", "\n".join(lines), re.MULTILINE
        )
    )
    ids = _devices(found, names, topology)
    _fast(found, ids, topology)
    _tree(found, ids, topology)


def _labels(lines: list[str]) -> list[str]:
    """The columns of the header, which may continue on the next lines."""
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise TopologyError("there is no header with GPU0 and the other devices")
    labels: list[str] = []
    for line in lines[start:]:
        row = words(line)
        if row and labels and row[0] in labels and len(row) > 1:
            break
        for word in (part for cell in row for part in _unglued(cell)):
            if word in ("CPU", "NUMA") or word.startswith(
                ("CPU ", "NUMA ", "GPU NUMA")
            ):
                return labels
            if LABEL.match(word) and word not in labels:
                labels.append(word)
    return labels


def _is_header(line: str) -> bool:
    row = words(line)
    return bool(row) and row[0] == "GPU0" and not _is_cell(row[1] if row[1:] else "")


def _unglued(cell: str) -> list[str]:
    return re.findall(r"(?:GPU|NIC)\d+(?=(?:GPU|NIC)\d|$)", cell) or [cell]


def _is_cell(word: str) -> bool:
    return word in NEARNESS or bool(LINKS.match(word))


def _check_cells(found: Table) -> None:
    for a in found.labels:
        for b in found.labels:
            cell = found.cells[a][b]
            if cell in ("OK", "CNS", "GNS", "TNS", "NS", "U"):
                raise TopologyError(
                    f"{a} - {b} is {cell}: a matrix of -p2p has permissions, not "
                    "paths; use nvidia-smi topo -m"
                )
            if not _is_cell(cell):
                raise TopologyError(f"{a} - {b}: {cell!r} is not a path type")


def _devices(found: Table, names: dict[str, str], topology: Topology) -> dict[str, str]:
    """Add the GPUs and NICs, and return their ids by their labels."""
    ids = {}
    nics = 0
    for label in found.labels:
        if label.startswith("GPU"):
            numa = next((w for w in found.rest[label][1:2] if w.isdigit()), None)
            ids[label] = topology.add(
                f"host0/{label.lower()}",
                Kind.GPU,
                host="host0",
                affinity=next(iter(found.rest[label]), None),
                numa=int(numa) if numa else None,
            )
        else:
            name = names.get(label, label)
            ids[label] = topology.add(
                f"host0/nic{nics}", Kind.NIC, host="host0", name=name
            )
            nics += 1
    return ids


def _fast(found: Table, ids: dict[str, str], topology: Topology) -> None:
    """Add NVLinks, to an NVSwitch if a GPU would need too many."""
    pairs = {
        (a, b): int(cell[1])
        for i, a in enumerate(found.labels)
        for b in found.labels[i + 1 :]
        if (cell := LINKS.match(found.cells[a][b]))
    }
    linked = list(dict.fromkeys(gpu for pair in pairs for gpu in pair))
    of = {g: [n for pair, n in pairs.items() if g in pair] for g in linked}
    rule = ("25 GB/s for each NVLink, as the matrix gives no generation",)
    if any(sum(counts) > MOST_LINKS for counts in of.values()):
        switch = topology.add("host0/nvswitch0", Kind.NVSWITCH, host="host0")
        for gpu, counts in of.items():
            n = max(counts)
            topology.link(
                ids[gpu], switch, LinkKind.NVLINK, 25.0 * n, count=n, assumed=rule
            )
        return
    for (a, b), n in pairs.items():
        topology.link(ids[a], ids[b], LinkKind.NVLINK, 25.0 * n, count=n, assumed=rule)


def _clusters(found: Table, labels: list[str], nearness: str) -> list[list[str]]:
    """Clusters of devices by single linkage, up to a path type."""
    limit = NEARNESS.index(nearness)
    clusters: list[list[str]] = []
    for label in labels:
        near = [c for c in clusters if any(_near(found, label, o, limit) for o in c)]
        merged = [member for cluster in near for member in cluster]
        clusters = [c for c in clusters if c not in near]
        clusters.append([*merged, label])
    order = {label: i for i, label in enumerate(labels)}
    return sorted((sorted(c, key=order.__getitem__) for c in clusters),
                  key=lambda c: order[c[0]])  # fmt: skip


def _near(found: Table, a: str, b: str, limit: int) -> bool:
    cell = found.cells[a][b]
    return cell in NEARNESS and NEARNESS.index(cell) <= limit


def _numa_groups(found: Table) -> list[list[str]]:
    """NUMA nodes: devices joined by NODE, or NVLinked GPUs of equal affinity."""
    groups = _clusters(found, found.labels, "NODE")
    alone: dict[tuple[str, ...], list[str]] = {}
    result = []
    for group in groups:
        affinity = tuple(found.rest[group[0]])
        far = any(cell == "SYS" for cell in found.cells[group[0]].values())
        if len(group) == 1 and affinity and not far:
            alone.setdefault(affinity, []).extend(group)
        else:
            result.append(group)
    return [*result, *alone.values()]


def _tree(found: Table, ids: dict[str, str], topology: Topology) -> None:
    cpus = []
    for i, group in enumerate(_numa_groups(found)):
        cpu = topology.add(f"host0/cpu{i}", Kind.CPU, host="host0")
        bridges = _clusters(found, group, "PHB")
        hidden = len(_clusters(found, group, "NODE")) > 1
        if hidden:
            topology.warn(f"NVLinks hide the PCIe links of the GPUs of {cpu}")
        for bridge in bridges:
            top = cpu
            if len(bridges) > 1 and not hidden:
                number = len(topology.devices(Kind.ROOT))
                top = topology.add(f"host0/root{number}", Kind.ROOT, host="host0")
                topology.link(top, cpu, LinkKind.PCIE)
            _switches(found, bridge, top, ids, topology)
        cpus.append(cpu)
    topology.link_all(cpus, LinkKind.SMP)


def _switches(
    found: Table, group: list[str], top: str, ids: dict[str, str], topology: Topology
) -> None:
    """Add the devices below a host bridge, with up to two levels of switches."""
    for outer in _clusters(found, group, "PXB"):
        inner = _clusters(found, outer, "PIX")
        above = top
        if len(inner) > 1:
            above = _switch(topology, top)
        for devices in inner:
            lone = len(devices) == 1 and above is top
            parent = above if lone else _switch(topology, above)
            for label in devices:
                topology.link(ids[label], parent, LinkKind.PCIE)


def _switch(topology: Topology, parent: str) -> str:
    number = len(topology.devices(Kind.PCI))
    switch = topology.add(f"host0/pci{number}", Kind.PCI, host="host0")
    topology.link(switch, parent, LinkKind.PCIE)
    return switch
