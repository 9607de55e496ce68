"""JSON Graph Format, versions 1 and 2: nodes and edges with metadata."""

from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Topology
from collalgo.topology.readers.generic_graph import Edge, fill
from collalgo.topology.readers.text import field, json_of


def recognises(text: str) -> bool:
    """A ``graph`` with nodes and edges, or a list of ``graphs``."""
    return any({"nodes", "edges"} <= set(graph) for graph in _graphs(text))


def _graphs(text: str) -> list[dict[str, Any]]:
    """The graphs of a file, which has one by the key ``graph``."""
    value = json_of(text)
    if not isinstance(value, dict):
        return []
    graphs = value.get("graphs", [value.get("graph")])
    entries = graphs if isinstance(graphs, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the graph."""
    graphs = _graphs(text)
    if len(graphs) > 1:
        raise TopologyError(f"the file holds {len(graphs)} graphs; keep one of them")
    (graph,) = graphs
    topology.name = str(graph.get("label", topology.name))
    nodes = graph["nodes"]
    if isinstance(nodes, dict):
        pairs = [(str(id), node) for id, node in nodes.items()]
    else:
        pairs = [(field(node, "id", str, "a node"), node) for node in nodes]
    fill(topology, [(id, _metadata(node)) for id, node in pairs], _edges(graph))


def _metadata(entry: dict[str, Any]) -> dict[str, Any]:
    rest = {key: entry[key] for key in ("label", "relation") if key in entry}
    return {**rest, **(entry.get("metadata") or {})}


def _edges(graph: dict[str, Any]) -> list[Edge]:
    directed = graph.get("directed", True)  # by the definition of the format
    return [
        Edge(
            field(edge, "source", str, "an edge"),
            field(edge, "target", str, "an edge"),
            _metadata(edge),
            bool(edge.get("directed", directed)),
        )
        for edge in graph["edges"]
    ]
