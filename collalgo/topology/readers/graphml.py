"""GraphML: nodes and edges with attributes."""

import io
import warnings

from collalgo.errors import TopologyError
from collalgo.topology.model import Topology
from collalgo.topology.readers.generic_graph import fill
from collalgo.topology.readers.text import root_tag, xml


def recognises(text: str) -> bool:
    """Whether the outermost element is ``graphml``."""
    return root_tag(text).rpartition(":")[2] == "graphml"


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the graph."""
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
    nodes = [(str(id), dict(attributes)) for id, attributes in graph.nodes(data=True)]
    if any("basename" in attributes for _, attributes in nodes):
        raise TopologyError(
            "this is a recipe of Flux (GRUG), not a graph of resources; export the "
            "graph as JGF"
        )
    edges = [(str(a), str(b), dict(data)) for a, b, data in graph.edges(data=True)]
    fill(topology, nodes, edges)
