"""Slurm's ``topology.yaml``: a list of topologies, one of which is the default."""

import math
from typing import Any

from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import grid
from collalgo.topology.graph import LARGEST
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.slurm import UNKNOWN, Entry, blocks, host, ring, switches
from collalgo.topology.readers.text import field, mappings
from collalgo.topology.readers.unknown_words import warn_of_keys
from collalgo.topology.values import integer

#: The keys of an entry, of what is below its kind, and of a switch, a block, ...
_OF_ENTRY = {"topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"}
_OF_KIND = {"tree": {"switches"}, "block": {"block_sizes", "blocks"},
            "ring": {"rings"}, "torus3d": {"toruses"}}  # fmt: skip
_OF_ELEMENT = {"name", "switch", "block", "ring", "nodes", "children", "dims",
               "placements", "regions"}  # fmt: skip


def recognises(text: str) -> bool:
    """A list of entries with the key ``topology``."""
    kinds = {"tree", "block", "flat", "ring", "torus3d"}
    return any("topology" in entry and kinds & set(entry) for entry in mappings(text))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the default entry of the cluster, else from the first."""
    entries = [entry for entry in mappings(text) if "topology" in entry]
    chosen = next((e for e in entries if e.get("cluster_default")), entries[0])
    others = [str(e["topology"]) for e in entries if e is not chosen]
    if others:
        topology.warn(
            f"using {chosen['topology']}; not used: {', '.join(others)} (set "
            "cluster_default: true in the entry to use, in a copy of the file)"
        )
    topology.name = str(chosen["topology"])
    fill(topology, chosen)


def _list_of(entry: Any, key: str) -> list[Any]:
    """A list of a mapping; empty without it."""
    found = entry.get(key) if isinstance(entry, dict) else None
    return found if isinstance(found, list) else []


def _check_keys(topology: Topology, what: str, entry: Entry) -> None:
    """Warn of unknown keys of an entry and of what is below."""
    warn_of_keys(topology, what, entry, _OF_ENTRY)
    for kind, lists in _OF_KIND.items():
        found = entry.get(kind)
        warn_of_keys(topology, f"the {kind}", found, lists)
        below = [one for key in lists for one in _list_of(found, key)]
        for one in below:
            warn_of_keys(topology, f"an element of the {kind}", one, _OF_ELEMENT)


def fill(topology: Topology, entry: Entry) -> None:
    """Fill a topology from one entry of the list."""
    what = f"topology {entry['topology']}"
    _check_keys(topology, what, entry)
    if "tree" in entry:
        tree = field(entry, "tree", dict, what)
        switches(topology, _named(field(tree, "switches", list, what), "switch"))
    elif "block" in entry:
        block = field(entry, "block", dict, what)
        given = field(block, "block_sizes", list, what)
        sizes = [integer(n, "a block size", 1) for n in given]
        blocks(topology, _named(field(block, "blocks", list, what), "block"), sizes)
    elif "ring" in entry:
        found = field(field(entry, "ring", dict, what), "rings", list, what)
        for one in _named(found, "ring"):
            ring(topology, one)
    elif "torus3d" in entry:
        found = field(field(entry, "torus3d", dict, what), "toruses", list, what)
        for torus in found:
            _torus(topology, torus)
    else:
        raise TopologyError(f"{entry['topology']} is flat: it has no structure")


def _named(entries: list[Entry], key: str) -> list[Entry]:
    return [{**entry, "name": field(entry, key, str, f"a {key}")} for entry in entries]


def _dims(entry: dict[str, Any]) -> tuple[int, int, int]:
    x, y, z = (integer(entry[axis], f"torus {axis}", 1, 1024) for axis in "xyz")
    if x * y * z > LARGEST:
        raise TopologyError(f"a torus of {x} x {y} x {z} has more than {LARGEST} nodes")
    return x, y, z


def _torus(topology: Topology, torus: Entry) -> None:
    """Add a torus of nodes, the first dimension fastest; regions fill parts of it."""
    dims = _dims(field(torus, "dims", dict, "a torus"))
    grid_nodes: list[str | None] = [None] * math.prod(dims)
    regions = torus.get("regions") or [{"dims": torus["dims"], "nodes": torus["nodes"]}]
    for region in regions:
        _fill_region(grid_nodes, dims, region)
    for i, name in enumerate(grid_nodes):
        if name is None:
            topology.warn(f"torus {torus.get('name')}: position {i} has no node")
    nodes = [
        host(topology, name)
        if name
        else topology.add(f"{torus.get('name')}-empty{i}", Kind.HOST)
        for i, name in enumerate(grid_nodes)
    ]
    grid(topology, nodes, dims, UNKNOWN)


def _fill_region(
    grid_nodes: list[str | None], dims: tuple[int, int, int], region: Entry
) -> None:
    inner, names = _dims(region["dims"]), expand(str(region["nodes"]))
    anchor = region.get("anchor") or {"x": 0, "y": 0, "z": 0}
    at = [integer(anchor[axis], f"anchor {axis}", 0, 1024) for axis in "xyz"]
    if len(names) != math.prod(inner):
        raise TopologyError(
            f"a torus of {' x '.join(map(str, inner))} has {len(names)} nodes"
        )
    for i, name in enumerate(names):
        x, y, z = i % inner[0], i // inner[0] % inner[1], i // (inner[0] * inner[1])
        x, y, z = ((a + o) % n for a, o, n in zip((x, y, z), at, dims, strict=True))
        grid_nodes[x + dims[0] * (y + dims[1] * z)] = name
