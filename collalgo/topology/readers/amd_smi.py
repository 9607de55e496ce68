"""The tables or the JSON of ``amd-smi topology``: links between GPUs, by bus id.

Source of the fields of the JSON: ``amdsmi_commands.py`` of amd-smi 24.7 (ROCm 6.3).
"""

import re
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.matrix import WIDEST, Table, plain, titled
from collalgo.topology.readers.text import field, mappings
from collalgo.topology.readers.xgmi import Tables, add_links

BUSID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)

KNOWN = re.compile(
    r"^[ \t]*(LINK TYPE|ACCESS|HOPS|CACHE COHERANCY) TABLE:", re.MULTILINE
)
TITLE = re.compile(r"\s*([A-Z\- ]{3,30}) TABLE:\s*")

#: The tables that are read, each with its field in the JSON.
FIELDS = {
    "hops": "num_hops",
    "weight": "weight",
    "access": "link_status",
    "numa bw": "bandwidth",
}


def recognises(text: str) -> bool:
    """The headings of the tables, or GPUs with links by bus id."""
    return bool(KNOWN.search(text) or any(map(_is_gpu, mappings(text))))


def _is_gpu(entry: dict[str, Any]) -> bool:
    return {"gpu", "bdf", "links"} <= entry.keys()


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the tables, or the JSON."""
    gpus = [entry for entry in mappings(text) if _is_gpu(entry)]
    tables = _of_json(gpus) if gpus else titled(plain(text), TITLE, BUSID)
    if "link type" not in tables:
        raise TopologyError(
            f"there are tables of {', '.join(tables).upper()} but none of LINK TYPE "
            "(link_type), which has the links between GPUs"
        )
    types = tables["link type"]
    ids = {
        busid: topology.add(f"host0/gpu{i}", Kind.GPU, host="host0", busid=busid)
        for i, busid in enumerate(types.labels)
    }
    if not add_links(topology, ids, Tables(types, *map(tables.get, FIELDS))):
        cpu = topology.add("host0/cpu0", Kind.CPU, host="host0")
        topology.warn("PCIe may mean switches or CPUs; all GPUs are linked to one CPU")
        for id in ids.values():
            topology.link(id, cpu, LinkKind.PCIE)


def _of_json(gpus: list[dict[str, Any]]) -> dict[str, Table]:
    """The tables of GPUs that each list the links to all of them."""
    if len(gpus) > WIDEST:
        raise TopologyError(f"{len(gpus)} GPUs are more than {WIDEST}")
    rows = {field(gpu, "bdf", str, "a GPU"): _row(gpu) for gpu in gpus}
    if len(rows) < len(gpus):
        raise TopologyError("two GPUs have one bdf; each has its own")
    for busid, row in rows.items():
        if row.keys() != rows.keys():
            odd = next(iter(row.keys() ^ rows.keys()))
            raise TopologyError(
                f"GPU {busid} lists {len(row)} of {len(rows)} GPUs ({odd} is not in "
                "both); pass the output of amd-smi topology --json for all GPUs"
            )
    titles = {"link type": "link_type", **FIELDS}
    found = {title: _table(rows, name) for title, name in titles.items()}
    return {title: table for title, table in found.items() if table is not None}


def _row(gpu: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The links of a GPU, by the bus id of the other end."""
    links = field(gpu, "links", list, f"GPU {gpu['bdf']}")
    return {field(link, "bdf", str, f"a link of {gpu['bdf']}"): link for link in links}


def _table(rows: dict[str, dict[str, dict[str, Any]]], name: str) -> Table | None:
    """The table of a field; None if a link lacks it, as an option may leave it out."""
    if any(name not in link for row in rows.values() for link in row.values()):
        return None
    cells = {
        busid: {other: str(link[name]) for other, link in row.items()}
        for busid, row in rows.items()
    }
    return Table([*rows], cells, {})
