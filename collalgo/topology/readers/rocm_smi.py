"""The tables of ``rocm-smi --showtopo``."""

import re

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import plain, titled
from collalgo.topology.readers.xgmi import Tables, add_links

TITLE = re.compile(
    r"= (Weight|Hops|Link Type|Link accessibility) between two GPUs =", re.IGNORECASE
)
LABEL = re.compile(r"GPU\d{1,4}")

#: The line of a NUMA node; old versions write "GPU 0" instead of "GPU[0]".
NUMA = re.compile(
    r"GPU ?\[?(\d{1,4})\]?\s{0,20}:\s{0,9}\(Topology\) Numa Node:\s{0,9}(-?\d{1,4})",
    re.IGNORECASE,
)


def recognises(text: str) -> bool:
    """The heading of a table, or a line with a NUMA node."""
    return bool(TITLE.search(text) or NUMA.search(text))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the tables."""
    lines = plain(text)
    tables = titled(lines, TITLE, LABEL)
    numa = {f"GPU{gpu}": int(node) for gpu, node in NUMA.findall("\n".join(lines))}
    labels = dict.fromkeys(label for found in tables.values() for label in found.labels)
    ids = {
        label: topology.add(f"host0/{label.lower()}", Kind.GPU, host="host0")
        for label in (*labels, *(gpu for gpu in numa if gpu not in labels))
    }
    _cpus(topology, ids, numa)
    if "link type" in tables:
        others = map(tables.get, ("hops", "weight", "link accessibility"))
        add_links(topology, ids, Tables(tables["link type"], *others))
    elif len(ids) > 1:
        topology.warn("without a table of link types: only PCIe links are read")


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
