"""The topology graph of an Ethernet fabric by NVIDIA NetQ."""

from collections.abc import Iterator
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.text import field, mappings


def recognises(text: str) -> bool:
    """Links with source and target, or a list of computers."""
    return any(_is_graph(e) or "GpuIDList" in e for e in mappings(text))


def _is_graph(entry: dict[str, Any]) -> bool:
    links = entry.get("links")
    return isinstance(links, list) and any(
        isinstance(link, dict) and "compounded_links" in link for link in links
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology; a link counts all of its cables."""
    graphs = [entry for entry in mappings(text) if _is_graph(entry)]
    if not graphs:
        raise TopologyError(
            "this is a list of computers without links; read the topology graph instead"
        )
    for graph in graphs:
        for node in _devices(graph.get("nodes") or []):
            kind = Kind.SWITCH if node.get("device_type") == "switch" else Kind.HOST
            topology.add(
                field(node, "id", str, "a node"),
                kind,
                name=str(node.get("name", "")),
                tier=node.get("tier"),
            )
        for link in graph["links"]:
            _link(topology, link)
    topology.warn("NetQ's graph has no link speeds")


def _devices(nodes: list[Any]) -> Iterator[dict[str, Any]]:
    """The devices of the tiers, at any depth."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            raise TopologyError(f"{str(node)[:40]!r} is not a node")
        inner = node.get("compounded_nodes") or []
        if inner:
            stack += reversed(inner)
        elif node.get("node_type", "device") == "device":
            yield node


def _link(topology: Topology, link: dict[str, Any]) -> None:
    ends = [field(link, key, str, "a link") for key in ("src", "target")]
    for end in ends:
        if end not in topology:
            topology.warn(f"{end} has links but is not among the nodes")
            topology.add(end, Kind.HOST, name=end)
    count = len(link.get("compounded_links") or [link])
    if "size" in link and link["size"] != count:
        topology.warn(
            f"{ends[0]} - {ends[1]}: {link['size']} cables, {count} are listed"
        )
    wire(topology, ends[0], ends[1], Cable(None), count)
