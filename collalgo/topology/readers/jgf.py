"""JSON Graph Format, versions 1 and 2: nodes and edges with metadata."""

from typing import Any

from collalgo.topology.model import Topology
from collalgo.topology.readers.generic_graph import fill
from collalgo.topology.readers.text import field, json_of

#: The keys of the ends of an edge.
ENDS = ("source", "target")


def recognises(text: str) -> bool:
    """A ``graph`` with nodes and edges."""
    value = json_of(text)
    graph = value.get("graph") if isinstance(value, dict) else None
    return isinstance(graph, dict) and {"nodes", "edges"} <= set(graph)


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the graph."""
    graph: dict[str, Any] = json_of(text)["graph"]
    topology.name = str(graph.get("label", topology.name))
    nodes = graph["nodes"]
    if isinstance(nodes, dict):
        pairs = [(str(id), node) for id, node in nodes.items()]
    else:
        pairs = [(field(node, "id", str, "a node"), node) for node in nodes]
    edges = [
        (*(field(edge, key, str, "an edge") for key in ENDS), _metadata(edge))
        for edge in graph["edges"]
    ]
    fill(topology, [(id, _metadata(node)) for id, node in pairs], edges)


def _metadata(entry: dict[str, Any]) -> dict[str, Any]:
    rest = {key: entry[key] for key in ("label", "relation") if key in entry}
    return {**rest, **(entry.get("metadata") or {})}
