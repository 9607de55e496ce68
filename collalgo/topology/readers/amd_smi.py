"""The tables of ``amd-smi topology``: links between GPUs, given by bus id."""

import re

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import plain, titled
from collalgo.topology.readers.xgmi import Tables, add_links

BUSID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)

KNOWN = re.compile(
    r"^[ \t]*(LINK TYPE|ACCESS|HOPS|CACHE COHERANCY) TABLE:", re.MULTILINE
)
TITLE = re.compile(r"\s*([A-Z\- ]{3,30}) TABLE:\s*")


def recognises(text: str) -> bool:
    """The headings of the tables."""
    return bool(KNOWN.search(text))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the tables."""
    tables = titled(plain(text), TITLE, BUSID)
    if "link type" not in tables:
        raise TopologyError(
            f"there are tables of {', '.join(tables).upper()} but none of LINK TYPE, "
            "which has the links between GPUs"
        )
    types = tables["link type"]
    ids = {
        busid: topology.add(f"host0/gpu{i}", Kind.GPU, host="host0", busid=busid)
        for i, busid in enumerate(types.labels)
    }
    others = map(tables.get, ("hops", "weight", "access", "numa bw"))
    if not add_links(topology, ids, Tables(types, *others)):
        cpu = topology.add("host0/cpu0", Kind.CPU, host="host0")
        topology.warn("PCIe may mean switches or CPUs; all GPUs are linked to one CPU")
        for id in ids.values():
            topology.link(id, cpu, LinkKind.PCIE)
