"""Graphs of general formats, whose nodes have a kind or type attribute."""

from typing import Any, NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, Link, LinkKind, Topology
from collalgo.topology.readers.directions import both_ways
from collalgo.topology.values import integer, number

#: The kinds of devices by their words, including those of Flux's resource graphs.
WORDS = {
    **{kind.value: kind for kind in Kind},
    "node": Kind.HOST,
    "server": Kind.HOST,
    "computer": Kind.HOST,
    "socket": Kind.CPU,
    "numanode": Kind.CPU,
    "hfi": Kind.NIC,
    "adapter": Kind.NIC,
    "router": Kind.SWITCH,
    "leaf": Kind.SWITCH,
    "spine": Kind.SWITCH,
}

#: The words of parts without links of their own.
PARTS = {"core", "pu", "memory", "cluster", "rack", "storage", "ssd", "blade"}

Attributes = dict[str, Any]


class Edge(NamedTuple):
    """An edge of a file; a directed one is one direction of a link."""

    a: str
    b: str
    attributes: Attributes
    directed: bool


def fill(
    topology: Topology, nodes: list[tuple[str, Attributes]], edges: list[Edge]
) -> None:
    """Add nodes and edges; an edge may have bandwidth, latency, count and kind."""
    ids: dict[str, str] = {}
    left_out: set[str] = set()
    for node, attributes in nodes:
        word = str(attributes.get("kind") or attributes.get("type") or "").lower()
        if word in PARTS:
            left_out.add(node)
        elif word not in WORDS:
            raise TopologyError(
                f"node {node}: unknown kind or type {word!r}; choose from "
                f"{', '.join(sorted(WORDS))}"
            )
        else:
            ids[node] = _node(topology, node, WORDS[word], attributes)
    _add_links(topology, edges, ids, left_out)
    if left_out:
        topology.warn(f"{len(left_out)} nodes are parts without links and are omitted")


def _add_links(
    topology: Topology, edges: list[Edge], ids: dict[str, str], left_out: set[str]
) -> None:
    """Add the links of the edges between known nodes."""
    directed: list[Link] = []
    for a, b, attributes, one_way in edges:
        if a in ids and b in ids:
            link = _link(topology, ids[a], ids[b], attributes)
            if one_way:
                directed.append(link)
            else:
                _join(topology, link)
        elif not all(end in ids or end in left_out for end in (a, b)):
            raise TopologyError(f"edge {a} - {b}: one end is not among the nodes")
    for link in both_ways(topology, directed):
        _join(topology, link)


def _node(topology: Topology, node: str, kind: Kind, attributes: Attributes) -> str:
    name = str(attributes.get("name") or attributes.get("label") or "")
    host = str(attributes.get("host") or "")
    return topology.add(node, kind, host=host, name=name)


def _link(topology: Topology, a: str, b: str, attributes: Attributes) -> Link:
    what = f"edge {a} - {b}"
    bandwidth, latency = attributes.get("bandwidth"), attributes.get("latency")
    return Link(
        (a, b),
        _kind(topology, a, b, attributes),
        None if bandwidth is None else number(bandwidth, f"{what} bandwidth"),
        count=integer(attributes.get("count", 1), f"{what} count", 1),
        latency=None if latency is None else number(latency, f"{what} latency"),
    )


def _join(topology: Topology, link: Link) -> None:
    topology.link(
        *link.ends, link.kind, link.bandwidth, count=link.count, latency=link.latency
    )


def _kind(topology: Topology, a: str, b: str, attributes: Attributes) -> LinkKind:
    word = str(attributes.get("kind", "")).lower()
    if word in {kind.value for kind in LinkKind}:
        return LinkKind(word)
    kinds = {topology.device(a).kind, topology.device(b).kind}
    if kinds & {Kind.SWITCH, Kind.HOST} and not kinds & {Kind.GPU, Kind.CPU}:
        return LinkKind.NETWORK
    if kinds == {Kind.CPU}:
        return LinkKind.SMP
    return LinkKind.PCIE
