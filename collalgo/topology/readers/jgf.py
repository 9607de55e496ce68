"""JSON Graph Format, versions 1 and 2: nodes and edges with metadata."""

from typing import Any

from collalgo.topology.model import Topology
from collalgo.topology.readers.generic_graph import fill
from collalgo.topology.readers.text import json_of


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
        pairs = [(str(node["id"]), node) for node in nodes]
    edges = [
        (str(edge["source"]), str(edge["target"]), _metadata(edge))
        for edge in graph["edges"]
    ]
    fill(topology, [(id, _metadata(node)) for id, node in pairs], edges)


def _metadata(entry: dict[str, Any]) -> dict[str, Any]:
    rest = {key: entry[key] for key in ("label", "relation") if key in entry}
    return {**rest, **(entry.get("metadata") or {})}
