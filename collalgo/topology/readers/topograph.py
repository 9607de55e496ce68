"""Models of NVIDIA's topograph: switches, and blocks of nodes below them."""

from typing import Any

from collalgo.base.hostlist import expand
from collalgo.base.yaml_documents import line_of
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.slurm import UNKNOWN
from collalgo.topology.readers.text import field, mappings
from collalgo.topology.readers.unknown_words import refuse_empty, warn_of_keys
from collalgo.topology.values import name as name_of

#: The keys of a model, and of its switches and blocks.
_OF_MODEL = {"switches", "blocks"}
_OF_SWITCH = {"switches", "labels"}
_OF_BLOCK = {"switch", "nodes", "annotations"}


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
    warn_of_keys(topology, "the model", model, _OF_MODEL)
    tree: dict[str, Any] = model["switches"]
    names = [
        *tree,
        *(s for e in tree.values() for s in (e or {}).get("switches") or []),
    ]
    blocks = [_checked(topology, block) for block in model["blocks"]]
    known = {*map(str, names)}
    names += [block["switch"] for block in blocks if block.get("switch")]
    for name in sorted({*map(str, names)} - known) if known else ():
        topology.warn(f"{name}, the switch of a block, is not among the switches")
    for name in dict.fromkeys(map(str, names)):
        _switch(topology, name, tree.get(name) or {})
    for name, entry in tree.items():
        for child in (entry or {}).get("switches") or []:
            wire(topology, str(child), str(name), UNKNOWN)
    for block in blocks:
        _block(topology, block)


def _switch(topology: Topology, name: str, entry: dict[str, Any]) -> None:
    """Add a switch with its labels."""
    warn_of_keys(topology, "a switch", entry, _OF_SWITCH)
    given = entry.get("labels") or {}
    labels = {str(k): name_of(v, f"label {k} of {name}") for k, v in given.items()}
    topology.add(name, Kind.SWITCH, name=name, labels=labels or None)


def _checked(topology: Topology, block: Any) -> dict[str, Any]:
    """A block, which has nodes."""
    nodes = field(block, "nodes", list, "a block")
    refuse_empty(f"{line_of(block)}a block", nodes, "nodes")
    warn_of_keys(topology, "a block", block, _OF_BLOCK)
    found: dict[str, Any] = block
    return found


def _block(topology: Topology, block: dict[str, Any]) -> None:
    annotations = block.get("annotations") or {}
    domains = [v for k, v in annotations.items() if k.endswith("/domain")]
    domain = name_of(domains[0], "the domain of a block") if domains else None
    for names in block["nodes"]:
        for name in expand(str(names)):
            if name in topology:
                raise TopologyError(f"node {name} is in two blocks")
            host = topology.add(name, Kind.HOST, name=name, domain=domain)
            if block.get("switch"):
                wire(topology, host, str(block["switch"]), UNKNOWN)
