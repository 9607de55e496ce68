"""A picture of a topology, laid out in layers by networkx and drawn by matplotlib."""

from collections import Counter
from typing import Any

import networkx as nx

from collalgo.base import plotting
from collalgo.base.plotting import new_figure
from collalgo.errors import TopologyError
from collalgo.topology.assumed import with_assumed_speeds
from collalgo.topology.domains import distance_from_hosts, host_named
from collalgo.topology.draw_lines import FAILED, Line, draw_lines, left_of, legend
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import FAST, Kind, Link, LinkKind, Topology

#: The layers of a machine, from the top.
LAYERS = (
    *(Kind.SWITCH, Kind.NVSWITCH, Kind.GPU, Kind.NIC, Kind.CARD, Kind.PCI),
    *(Kind.ROOT, Kind.CPU, Kind.CORE),
)

COLOURS = {
    Kind.GPU: "#76b900",
    Kind.NIC: "#f2a900",
    Kind.PCI: "#c9ced6",
    Kind.CARD: "#d7dbe2",
    Kind.ROOT: "#e3e6ea",
    Kind.CPU: "#4a90d9",
    Kind.CORE: "#9dc3ec",
    Kind.NVSWITCH: "#b8e06a",
    Kind.HOST: "#4a90d9",
    Kind.SWITCH: "#d9d0f0",
}

Graph = Any

#: The most devices of a picture; more are too small to be told apart.
MOST_DRAWN = 1000


def draw(
    topology: Topology,
    path: Any,
    host: str | None = None,
    *,
    faults: Faults = WHOLE,
    force: bool = False,
) -> None:
    """Write a picture, SVG or PNG by its name.

    Parameters
    ----------
    topology
        A single host is drawn with all devices; several hosts are drawn as boxes on
        their network.
    path
        The file to write.
    host
        Draw the inside of this host instead.
    faults
        Failed elements, drawn dashed in red, and slow ones, with the remaining fraction
        beside them.
    force
        Write over a file that collalgo has not written.

    Raises
    ------
    TopologyError
        If there is no such host or fault, nothing to draw, or too much.
    ImportError
        Without matplotlib; it comes with ``pip install 'collalgo[plot]'``.
    """
    left = faults.of(topology)
    known = with_assumed_speeds(topology)
    if host is None and len(topology.hosts) > 1:
        graph, positions = _network(known)
    else:
        graph, positions = _machine(known, host_named(topology, host))
    if not positions:
        raise TopologyError(f"{topology.name}: there are no devices to draw")
    width = max(_inches(graph), 7.0)
    figure = new_figure(min(width, 60.0), 6.0)
    axes = figure.subplots()
    axes.set_title(f"{left.name} {host or ''}".strip())
    _fill(axes, graph, positions, left)
    plotting.save(figure, path, force=force, dpi=150)


def _fill(
    axes: Any, graph: Graph, positions: dict[str, Any], topology: Topology
) -> None:
    """Draw the lines, the boxes and the legend, with marks for faults."""
    axes.set_axis_off()
    lines = [
        Line(positions[a], positions[b], links, left_of(links, topology))
        for a, b, links in graph.edges(data="links")
    ]
    draw_lines(axes, lines)
    _boxes(axes, graph, positions, topology)
    legend(axes, lines)
    lowest = min(y for _, y in positions.values())
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(lowest - 0.5, 0.6)  # arcs need room above the first row


def _inches(graph: Graph) -> float:
    """The width of the widest layer with its labels side by side."""
    rows: dict[int, float] = {}
    for _, data in graph.nodes(data=True):
        longest = max(map(len, data["label"].splitlines()), default=0)
        rows[data["layer"]] = rows.get(data["layer"], 0.0) + 0.6 + 0.08 * longest
    return max(rows.values(), default=0.0)


def _layered(graph: Graph) -> dict[str, Any]:
    """Position nodes by layer, top down, every layer as wide as the widest."""
    if len(graph) > MOST_DRAWN:
        raise TopologyError(
            f"{len(graph)} devices are too many for a picture, at most {MOST_DRAWN}; "
            "draw one host, or show the tree"
        )
    layers: dict[int, list[str]] = {}
    for node, layer in graph.nodes(data="layer"):
        layers.setdefault(layer, []).append(node)
    rows = {layer: layers[layer] for layer in sorted(layers)}
    positions: dict[str, Any] = nx.multipartite_layout(
        graph, subset_key=rows, align="horizontal"
    )
    heights = {layer: -i for i, layer in enumerate(rows)}
    for layer, row in rows.items():
        for i, node in enumerate(row):
            positions[node] = ((i + 0.5) / len(row), heights[layer])
    return positions


def _machine(topology: Topology, host: str) -> tuple[Graph, dict[str, Any]]:
    """The graph of the devices of a host, with NVSwitches outside of hosts."""
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    inside = [d for d in topology.devices() if host in (d.host, d.id)]
    if any(link.kind in FAST for d in inside for link in topology.links_of(d.id)):
        inside += [d for d in topology.devices(Kind.NVSWITCH) if not d.host]
    for device in inside:
        kind = device.kind
        # NICs are drawn between the GPUs of their switches, in tree order.
        layer = LAYERS.index(Kind.GPU if kind is Kind.NIC else kind)
        label = device.id.removeprefix(f"{host}/")
        if kind is Kind.NIC and device.name:
            label = device.name
        graph.add_node(
            device.id, kind=kind, layer=layer, label=label, devices={device.id}
        )
    order = _tree_order(topology, [d.id for d in inside])
    ordered: nx.MultiGraph[str] = nx.MultiGraph()
    ordered.add_nodes_from((id, graph.nodes[id]) for id in order)
    for link in topology.links:
        if set(link.ends) <= set(ordered):
            ordered.add_edge(*link.ends, links=[link])
    return ordered, _layered(ordered)


def _tree_order(topology: Topology, ids: list[str]) -> list[str]:
    """Devices in depth-first order from the CPUs, so that siblings are adjacent."""
    order: dict[str, None] = {}
    wanted = set(ids)

    def visit(id: str) -> None:
        order[id] = None
        for link in topology.links_of(id):
            other = link.other(id)
            kinds = {topology.device(end).kind for end in link.ends}
            down = link.kind is LinkKind.PCIE or kinds == {Kind.CPU, Kind.GPU}
            if down and other in wanted and other not in order:
                visit(other)

    for id in (*(d.id for d in topology.devices(Kind.CPU) if d.id in wanted), *ids):
        if id not in order:
            visit(id)
    return list(order)


def _network(topology: Topology) -> tuple[Graph, dict[str, Any]]:
    """The graph of hosts, as one box each, below the levels of switches."""
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    distance = distance_from_hosts(topology)
    counts = Counter((device.host, device.kind) for device in topology.devices())
    box: dict[str, str] = {}
    for device in topology.devices():
        own = device.kind in (Kind.SWITCH, Kind.NVSWITCH) and not device.host
        node = device.id if own or not device.host else device.host
        box[device.id] = node
        if node in graph:
            graph.nodes[node]["devices"].add(device.id)
            continue
        kind = device.kind if own or not device.host else Kind.HOST
        layer = -distance.get(device.id, 1) if own else 0
        label = node if kind is not Kind.HOST else _summary(node, counts)
        graph.add_node(node, kind=kind, layer=layer, label=label, devices={device.id})
    for link in topology.links:
        a, b = (box[end] for end in link.ends)
        if a != b:
            _add_line(graph, a, b, link)
    return graph, _layered(graph)


def _add_line(graph: Graph, a: str, b: str, link: Link) -> None:
    """Add a link between two boxes; those of one kind are one line."""
    if not graph.has_edge(a, b, link.kind):
        graph.add_edge(a, b, key=link.kind, links=[])
    graph.edges[a, b, link.kind]["links"].append(link)


def _summary(host: str, counts: Counter[tuple[str, Kind]]) -> str:
    shown = [
        f"{counts[host, kind]} {kind.value.upper()}"
        for kind in (Kind.GPU, Kind.NIC)
        if counts[host, kind]
    ]
    return "\n".join([host, *shown])


def _boxes(
    axes: Any, graph: Graph, positions: dict[str, Any], topology: Topology
) -> None:
    for node, data in graph.nodes(data=True):
        x, y = positions[node]
        is_lost = not any(id in topology for id in data["devices"])
        axes.plot([x], [y], alpha=0)  # extends the limits of the axes
        axes.text(
            x,
            y,
            data["label"],
            ha="center",
            va="center",
            fontsize=8,
            bbox={
                "boxstyle": "round,pad=0.35",
                "facecolor": COLOURS[data["kind"]],
                "edgecolor": FAILED if is_lost else "#30353b",
                "linestyle": "--" if is_lost else "-",
                "linewidth": 1.6 if is_lost else 0.6,
            },
        )
