"""The tables of ``amd-smi topology``: links between GPUs, given by bus id."""

import re

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import Table, plain, table, words
from collalgo.topology.readers.text import number

BUSID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", re.IGNORECASE)


TITLE = re.compile(
    r"^[ \t]*(LINK TYPE|ACCESS|HOPS|CACHE COHERANCY) TABLE:", re.MULTILINE
)


def recognises(text: str) -> bool:
    """The headings of the tables."""
    return bool(TITLE.search(text))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the tables."""
    tables = _tables(plain(text))
    if "LINK TYPE" not in tables:
        raise TopologyError(
            f"there are tables of {', '.join(tables)} but none of LINK TYPE, which has "
            "the links between GPUs"
        )
    types = tables["LINK TYPE"]
    ids = {
        busid: topology.add(f"host0/gpu{i}", Kind.GPU, host="host0", busid=busid)
        for i, busid in enumerate(types.labels)
    }
    pairs = [(a, b) for i, a in enumerate(types.labels) for b in types.labels[:i]]
    for a, b in pairs:
        if types.cells[a][b] == "XGMI":
            _xgmi(topology, tables, (ids[b], ids[a]), (b, a))
    if any(types.cells[a][b] == "PCIE" for a, b in pairs):
        cpu = topology.add("host0/cpu0", Kind.CPU, host="host0")
        topology.warn("PCIE may mean switches or CPUs; all GPUs are linked to one CPU")
        for id in ids.values():
            topology.link(id, cpu, LinkKind.PCIE)


def _tables(lines: list[str]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for i, line in enumerate(lines):
        title = re.match(r"\s*([A-Z\- ]{3,30}) TABLE:$", line)
        if title:
            end = next((k for k in range(i + 1, len(lines)) if not lines[k].strip()),
                       len(lines))  # fmt: skip
            labels = words(lines[i + 1]) if i + 1 < len(lines) else []
            if labels and all(BUSID.match(label) for label in labels):
                tables[title[1].strip()] = table(labels, lines[i + 2 : end])
    return tables


def _xgmi(
    topology: Topology,
    tables: dict[str, Table],
    ends: tuple[str, str],
    labels: tuple[str, str],
) -> None:
    a, b = labels
    hops = tables["HOPS"].cells[a][b] if "HOPS" in tables else "1"
    if hops != "1":  # through another GPU
        return
    bandwidth = None
    if "NUMA BW" in tables:
        cell = tables["NUMA BW"].cells[a][b]
        range_of = re.fullmatch(r"(\d+)-(\d+)", cell)
        if range_of and int(range_of[2]):
            bandwidth = number(range_of[2], f"{ends[0]} - {ends[1]} NUMA BW") / 1000
    topology.link(*ends, LinkKind.XGMI, bandwidth)
