"""GraphML: nodes and edges with attributes."""

import io
import warnings
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Topology
from collalgo.topology.readers.generic_graph import Edge, fill
from collalgo.topology.readers.text import root_tag, xml

#: The parts of a graph whose keys have default values.
PARTS = ("node", "edge")


def recognises(text: str) -> bool:
    """Whether the outermost element is ``graphml``."""
    return root_tag(text).rpartition(":")[2] == "graphml"


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the graph."""
    graph = _graph(text, topology)
    kinds, speeds = (graph.graph.get(f"{part}_default", {}) for part in PARTS)
    nodes = [(str(id), {**kinds, **own}) for id, own in graph.nodes(data=True)]
    if any("basename" in attributes for _, attributes in nodes):
        raise TopologyError(
            "this is a recipe of Flux (GRUG), not a graph of resources; export the "
            "graph as JGF"
        )
    edges = [
        Edge(str(a), str(b), {**speeds, **own}, graph.is_directed())
        for a, b, own in graph.edges(data=True)
    ]
    fill(topology, nodes, edges)


def _graph(text: str, topology: Topology) -> Any:
    """The graph of networkx, with its complaints as warnings."""
    import networkx as nx

    xml(text)  # refuses entities, which networkx would expand
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        try:
            graph = nx.read_graphml(io.BytesIO(text.encode()))
        except nx.NetworkXError as error:
            raise TopologyError(f"invalid GraphML: {error}") from None
    for complaint in complaints:
        topology.warn(str(complaint.message))
    return graph
