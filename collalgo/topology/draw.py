"""A picture of a topology, laid out in layers by networkx and drawn by matplotlib."""

import math
from collections import Counter
from typing import Any

import networkx as nx

from collalgo.base import plotting
from collalgo.base.plotting import new_figure
from collalgo.errors import TopologyError
from collalgo.topology.domains import distance_from_hosts, host_named
from collalgo.topology.model import FAST, Kind, LinkKind, Topology

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
LINES = {
    LinkKind.NVLINK: "#3f7d00",
    LinkKind.XGMI: "#b0202a",
    LinkKind.ICI: "#00838f",
    LinkKind.C2C: "#8a4fbf",
    LinkKind.PCIE: "#7a828c",
    LinkKind.SMP: "#1f5fa8",
    LinkKind.NETWORK: "#c07800",
}

Graph = Any

#: The most devices of a picture; more are too small to be told apart.
MOST_DRAWN = 1000


def draw(
    topology: Topology, path: Any, host: str | None = None, *, force: bool = False
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
    force
        Write over a file that collalgo has not written.

    Raises
    ------
    TopologyError
        If there is no such host, nothing to draw, or too much.
    ImportError
        Without matplotlib; it comes with ``pip install 'collalgo[plot]'``.
    """
    if host is None and len(topology.hosts) > 1:
        graph, positions = _network(topology)
    else:
        graph, positions = _machine(topology, host_named(topology, host))
    if not positions:
        raise TopologyError(f"{topology.name}: there are no devices to draw")
    width = max(_inches(graph), 7.0)
    figure = new_figure(min(width, 60.0), 6.0)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(f"{topology.name} {host or ''}".strip())
    _lines(axes, graph, positions)
    _boxes(axes, graph, positions)
    _legend(axes, graph)
    lowest = min(y for _, y in positions.values())
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(lowest - 0.5, 0.6)  # arcs need room above the first row
    plotting.save(figure, path, force=force, dpi=150)


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
        graph.add_node(device.id, kind=kind, layer=layer, label=label)
    order = _tree_order(topology, [d.id for d in inside])
    ordered: nx.MultiGraph[str] = nx.MultiGraph()
    ordered.add_nodes_from((id, graph.nodes[id]) for id in order)
    for link in topology.links:
        if set(link.ends) <= set(ordered):
            ordered.add_edge(*link.ends, link=link)
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
            continue
        kind = device.kind if own or not device.host else Kind.HOST
        layer = -distance.get(device.id, 1) if own else 0
        label = node if kind is not Kind.HOST else _summary(node, counts)
        graph.add_node(node, kind=kind, layer=layer, label=label)
    for link in topology.links:
        a, b = (box[end] for end in link.ends)
        if a != b:  # links of one kind between two boxes are one line
            graph.add_edge(a, b, key=link.kind, link=link)
    return graph, _layered(graph)


def _summary(host: str, counts: Counter[tuple[str, Kind]]) -> str:
    shown = [
        f"{counts[host, kind]} {kind.value.upper()}"
        for kind in (Kind.GPU, Kind.NIC)
        if counts[host, kind]
    ]
    return "\n".join([host, *shown])


def _lines(axes: Any, graph: Graph, positions: dict[str, Any]) -> None:
    """Draw a line between rows, and within a row an arc."""
    many = graph.number_of_edges() > 150
    straight, styles = [], []
    for a, b, link in graph.edges(data="link"):
        (x0, y0), (x1, y1) = positions[a], positions[b]
        width = 0.6 if many else 0.8 + 0.9 * min(link.count, 4)
        if abs(y0 - y1) >= 1e-6:
            straight.append([(x0, y0), (x1, y1)])
            styles.append((LINES[link.kind], width))
            continue
        # Further ends have flatter arcs.
        bend = math.copysign(0.2 / math.sqrt(abs(x0 - x1)), x0 - x1)
        arc = {"arrowstyle": "-", "shrinkA": 8, "shrinkB": 8}
        arc |= {"lw": width, "color": LINES[link.kind]}
        arc |= {"alpha": _opacity(many), "connectionstyle": f"arc3,rad={bend}"}
        axes.annotate("", (x1, y1), (x0, y0), arrowprops=arc)
    if straight:  # one object, as thousands take seconds
        _draw_straight(axes, straight, styles, _opacity(many))


def _opacity(many: bool) -> float:
    return 0.5 if many else 0.85


def _draw_straight(
    axes: Any, lines: list[Any], styles: list[tuple[str, float]], opacity: float
) -> None:
    from matplotlib.collections import LineCollection

    colours, widths = zip(*styles, strict=True)
    axes.add_collection(
        LineCollection(lines, colors=colours, linewidths=widths, alpha=opacity)
    )


def _boxes(axes: Any, graph: Graph, positions: dict[str, Any]) -> None:
    for node, data in graph.nodes(data=True):
        x, y = positions[node]
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
                "edgecolor": "#30353b",
                "linewidth": 0.6,
            },
        )


def _legend(axes: Any, graph: Graph) -> None:
    """A legend entry for each kind of link, with its speeds."""
    speeds: dict[LinkKind, set[str]] = {}
    for _, _, link in graph.edges(data="link"):
        each = None if link.bandwidth is None else link.bandwidth / link.count
        speeds.setdefault(link.kind, set()).add("?" if each is None else f"{each:.4g}")
    for kind, found in speeds.items():
        shown = ", ".join(sorted(found)[:4]) + (", ..." if len(found) > 4 else "")
        axes.plot([], [], color=LINES[kind], lw=2, label=f"{kind.value} {shown} GB/s")
    if speeds:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=3,
                    frameon=False, fontsize=8)  # fmt: skip
