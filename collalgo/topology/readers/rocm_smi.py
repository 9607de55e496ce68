"""The tables of ``rocm-smi --showtopo``."""

import re

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import Table, plain, table, words

TITLE = re.compile(r"= (Weight|Hops|Link Type) between two GPUs =")
NUMA = re.compile(r"GPU\[(\d{1,4})\]\s{0,9}: \(Topology\) Numa Node: (-?\d{1,4})")


def recognises(text: str) -> bool:
    """The heading of a table, or a line with a NUMA node."""
    return bool(TITLE.search(text) or NUMA.search(text))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the tables."""
    lines = plain(text)
    tables = _tables(lines)
    numa = {f"GPU{gpu}": int(node) for gpu, node in NUMA.findall(text)}
    labels = next(iter(tables.values())).labels if tables else list(numa)
    ids = {
        label: topology.add(f"host0/{label.lower()}", Kind.GPU, host="host0")
        for label in labels
    }
    _cpus(topology, ids, numa)
    if "Link Type" in tables:
        _links(topology, ids, tables)


def _tables(lines: list[str]) -> dict[str, Table]:
    tables = {}
    for i, line in enumerate(lines):
        title = TITLE.search(line)
        if title and i + 1 < len(lines):
            labels = words(lines[i + 1])
            tables[title[1]] = table(labels, lines[i + 2 : i + 2 + len(labels)])
    return tables


def _cpus(topology: Topology, ids: dict[str, str], numa: dict[str, int]) -> None:
    cpus: dict[int, str] = {}
    for label, id in ids.items():
        node = max(numa.get(label, -1), 0)
        if label not in numa or numa[label] < 0:
            topology.warn(f"{id}: unknown NUMA node; 0 is assumed")
        if node not in cpus:
            name = f"host0/cpu{node}"
            cpus[node] = topology.add(name, Kind.CPU, host="host0", numa=node)
        topology.link(id, cpus[node], LinkKind.PCIE)
    topology.link_all(cpus.values(), LinkKind.SMP)


def _links(topology: Topology, ids: dict[str, str], tables: dict[str, Table]) -> None:
    types, hops = tables["Link Type"], tables.get("Hops")
    for i, a in enumerate(types.labels):
        for b in types.labels[:i]:
            cell = types.cells[a][b]
            if cell == "XXXX":
                topology.warn(f"{ids[b]} - {ids[a]}: the tool could not read the link")
            elif cell == "XGMI" and (hops is None or hops.cells[a][b] == "1"):
                topology.link(ids[b], ids[a], LinkKind.XGMI)
