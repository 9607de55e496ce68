"""The affinities in a row of ``nvidia-smi topo -m``: cores and NUMA node of a GPU."""

import re
from typing import Any

from collalgo.base.cpu_list import is_list
from collalgo.topology.model import Topology
from collalgo.topology.readers.nvidia_smi_matrix import Matrix


def attributes(found: Matrix, label: str, topology: Topology) -> dict[str, Any]:
    """The attributes of a GPU: its host, cores and NUMA node."""
    rest = found.table.rest[label]
    affinity = next((word for word in rest[:1] if word != "N/A"), None)
    if affinity is not None and not is_list(affinity):
        topology.warn(
            f"{label}: CPU affinity {affinity[:40]!r} is not a list of cores as 0-3,8; "
            "ignored"
        )
        affinity = None
    numa = rest[1] if found.has_numa and rest[1:] else ""
    return {"host": "host0", "affinity": affinity, **_numa(numa, label, topology)}


def _numa(text: str, label: str, topology: Topology) -> dict[str, Any]:
    """The NUMA node of a GPU; of a list, the first is that of its CPU."""
    if text in ("", "N/A"):
        return {}
    if not is_list(text):
        topology.warn(
            f"{label}: NUMA affinity {text[:40]!r} is not a number or a list as 0-3,8; "
            "ignored"
        )
        return {}
    node = int(re.split("[-,]", text)[0])
    if text.isdigit():
        return {"numa": node}
    topology.warn(f"{label}: of the NUMA nodes {text[:40]}, {node} is used as its CPU")
    return {"numa": node, "numa_nodes": text}
