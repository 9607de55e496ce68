"""Graphs of general formats, whose nodes tell by a word what they are."""

from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.text import integer, number

#: What words mean; those of Flux's resource graphs among them.
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

#: Parts that have no links of their own.
PARTS = {"core", "pu", "memory", "cluster", "rack", "storage", "ssd", "blade"}

Attributes = dict[str, Any]


def fill(
    topology: Topology,
    nodes: list[tuple[str, Attributes]],
    edges: list[tuple[str, str, Attributes]],
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
                f"node {node}: its kind or type is {word!r}, none of "
                f"{', '.join(sorted(WORDS))}"
            )
        else:
            name = str(attributes.get("name") or attributes.get("label") or "")
            host = str(attributes.get("host") or "")
            ids[node] = topology.add(node, WORDS[word], host=host, name=name)
    for a, b, attributes in edges:
        if a in ids and b in ids:
            _edge(topology, ids[a], ids[b], attributes)
        elif not {a, b} <= set(ids) | left_out:
            raise TopologyError(f"edge {a} - {b}: one end is not among the nodes")
    if left_out:
        topology.warn(f"{len(left_out)} nodes are parts without links and are left out")


def _edge(topology: Topology, a: str, b: str, attributes: Attributes) -> None:
    what = f"edge {a} - {b}"
    bandwidth, latency = attributes.get("bandwidth"), attributes.get("latency")
    topology.link(
        a,
        b,
        _kind(topology, a, b, attributes),
        None if bandwidth is None else number(bandwidth, f"{what} bandwidth"),
        count=integer(attributes.get("count", 1), f"{what} count", 1),
        latency=None if latency is None else number(latency, f"{what} latency"),
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
