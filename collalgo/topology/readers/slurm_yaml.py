"""Slurm's ``topology.yaml``: a list of topologies, one of which is the default."""

import math
from typing import Any

from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import grid
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.slurm import UNKNOWN, Entry, blocks, host, ring, switches
from collalgo.topology.readers.text import integer, mappings


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
        topology.warn(f"using {chosen['topology']}; not used: {', '.join(others)}")
    topology.name = str(chosen["topology"])
    fill(topology, chosen)


def fill(topology: Topology, entry: Entry) -> None:
    """Fill a topology from one entry of the list."""
    if "tree" in entry:
        switches(topology, _named(entry["tree"]["switches"], "switch"))
    elif "block" in entry:
        sizes = [integer(n, "a block size", 1) for n in entry["block"]["block_sizes"]]
        blocks(topology, _named(entry["block"]["blocks"], "block"), sizes)
    elif "ring" in entry:
        for one in _named(entry["ring"]["rings"], "ring"):
            ring(topology, one)
    elif "torus3d" in entry:
        for torus in entry["torus3d"]["toruses"]:
            _torus(topology, torus)
    else:
        raise TopologyError(f"{entry['topology']} is flat: it has no structure")


def _named(entries: list[Entry], key: str) -> list[Entry]:
    return [{**entry, "name": str(entry[key])} for entry in entries]


def _dims(entry: dict[str, Any]) -> tuple[int, int, int]:
    x, y, z = (integer(entry[axis], f"torus {axis}", 1, 1024) for axis in "xyz")
    return x, y, z


def _torus(topology: Topology, torus: Entry) -> None:
    """Add a torus of nodes, the first dimension fastest; regions fill parts of it."""
    dims = _dims(torus["dims"])
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
