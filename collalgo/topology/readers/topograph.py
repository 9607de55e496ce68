"""Models of NVIDIA's topograph: switches, and blocks of nodes below them."""

from typing import Any

from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.slurm import UNKNOWN
from collalgo.topology.readers.text import mappings
from collalgo.topology.values import name as name_of


def recognises(text: str) -> bool:
    """A mapping of switches and a list of blocks."""
    return any(
        isinstance(entry.get("switches"), dict)
        and isinstance(entry.get("blocks"), list)
        for entry in mappings(text)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology; the NVLink domain is an attribute of the hosts."""
    model = mappings(text)[0]
    tree: dict[str, Any] = model["switches"]
    names = [
        *tree,
        *(s for e in tree.values() for s in (e or {}).get("switches") or []),
    ]
    blocks = [_checked(block) for block in model["blocks"]]
    known = {*map(str, names)}
    names += [block["switch"] for block in blocks if block.get("switch")]
    for name in sorted({*map(str, names)} - known) if known else ():
        topology.warn(f"{name}, the switch of a block, is not among the switches")
    for name in dict.fromkeys(map(str, names)):
        given = (tree.get(name) or {}).get("labels") or {}
        labels = {str(k): name_of(v, f"label {k} of {name}") for k, v in given.items()}
        topology.add(name, Kind.SWITCH, name=name, labels=labels or None)
    for name, entry in tree.items():
        for child in (entry or {}).get("switches") or []:
            wire(topology, str(child), str(name), UNKNOWN)
    for block in blocks:
        _block(topology, block)


def _checked(block: Any) -> dict[str, Any]:
    if not isinstance(block, dict):
        raise TopologyError(f"a block must be a mapping, not {str(block)[:40]!r}")
    return block


def _block(topology: Topology, block: dict[str, Any]) -> None:
    annotations = block.get("annotations") or {}
    domains = [v for k, v in annotations.items() if k.endswith("/domain")]
    domain = name_of(domains[0], "the domain of a block") if domains else None
    for names in block.get("nodes") or []:
        for name in expand(str(names)):
            if name in topology:
                raise TopologyError(f"node {name} is in two blocks")
            host = topology.add(name, Kind.HOST, name=name, domain=domain)
            if block.get("switch"):
                wire(topology, host, str(block["switch"]), UNKNOWN)
