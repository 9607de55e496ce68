"""A picture of a topology, drawn by matplotlib."""

from typing import Any

from collalgo.base import plotting
from collalgo.base.plotting import literal, new_figure
from collalgo.errors import TopologyError
from collalgo.topology.assumed import with_assumed_speeds
from collalgo.topology.axes import axes_of
from collalgo.topology.draw_layout import Layout, layout_of
from collalgo.topology.draw_lines import FAILED, draw_lines, legend, shades
from collalgo.topology.draw_sketch import Sketch, sketch_of
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import Kind, Topology

COLOURS = {
    Kind.GPU: "#8fcb2b",
    Kind.NIC: "#f2a900",
    Kind.PCI: "#c9ced6",
    Kind.CARD: "#d7dbe2",
    Kind.ROOT: "#e3e6ea",
    Kind.CPU: "#7fb2e8",
    Kind.CORE: "#b9d5f2",
    Kind.NVSWITCH: "#cdeb8e",
    Kind.HOST: "#a9cdf2",
    Kind.SWITCH: "#d9d0f0",
}

#: The most boxes of a picture; more are too small to be told apart.
MOST_DRAWN = 1000

#: The most devices of a topology that notebooks draw unasked: a second's work.
MOST_IN_NOTEBOOKS = 10_000

#: The inches of the title, and of a row of the legend.
TITLE, ENTRY = 0.4, 0.2


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
        their network, of more than 16 the equal ones in one box.
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
    figure = _figure(topology, left, host)
    plotting.save(figure, path, force=force, dpi=150)


def svg(topology: Topology) -> str:
    """The picture as SVG, for notebooks; raises as :func:`draw`."""
    return plotting.svg(_figure(topology, topology, None))


def obstacle(topology: Topology) -> str:
    """Why a notebook shows no picture of a topology, or ""."""
    count = len(topology.devices())
    if count > MOST_IN_NOTEBOOKS:
        return (
            f"{count} devices take long to draw; collalgo topo draw draws them, and "
            "topo show lists them"
        )
    try:
        _checked_sketch(topology, topology, None)
    except TopologyError as error:
        return str(error)
    return plotting.obstacle()


def _figure(topology: Topology, left: Topology, host: str | None) -> Any:
    """The figure of a topology; ``left`` is the topology with its faults."""
    sketch = _checked_sketch(topology, left, host)
    dims = axes_of(topology, list(sketch.boxes)) if sketch.is_network else ()
    layout = layout_of(sketch, dims)
    figure = new_figure(1, 1)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    draw_lines(axes, sketch, layout)
    _draw_boxes(axes, sketch, layout, left)
    below = ENTRY * (1 + legend(axes, sketch.lines, layout.width)) + 0.1
    _frame(figure, axes, layout, below)
    title = literal(f"{left.name} {host or ''}".strip())
    axes.text(layout.width / 2, layout.height + TITLE / 2, title,
              ha="center", va="center", fontsize=11)  # fmt: skip
    return figure


def _checked_sketch(topology: Topology, left: Topology, host: str | None) -> Sketch:
    """What a picture shows, refused if that is nothing or too much."""
    sketch = sketch_of(with_assumed_speeds(topology), host, left)
    if not sketch.boxes:
        raise TopologyError(f"{topology.name}: there are no devices to draw")
    if len(sketch.boxes) > MOST_DRAWN:
        raise TopologyError(
            f"{len(sketch.boxes)} devices are too many for a picture, at most "
            f"{MOST_DRAWN}; draw one host, or show the tree"
        )
    return sketch


def _frame(figure: Any, axes: Any, layout: Layout, below: float) -> None:
    """Make the units of the axes inches, with room for the title and the legend."""
    height = layout.height + TITLE + below
    figure.set_size_inches(layout.width, height)
    axes.set_xlim(0, layout.width)
    axes.set_ylim(-below, layout.height + TITLE)


def _draw_boxes(axes: Any, sketch: Sketch, layout: Layout, left: Topology) -> None:
    speeds = [box.speed for box in sketch.boxes.values() if box.speed]
    of_speed = shades(speeds, COLOURS[Kind.NIC])
    for name, box in sketch.boxes.items():
        is_lost = not any(id in left for id in box.devices)
        around = {
            "boxstyle": "round,pad=0.35",
            "facecolor": of_speed.get(box.speed, COLOURS[box.kind]),
            "edgecolor": FAILED if is_lost else "#30353b",
            "linestyle": "--" if is_lost else "-",
            "linewidth": 1.6 if is_lost else 0.6,
        }
        axes.text(*layout.places[name], literal(box.label), ha="center", va="center",
                  fontsize=8, bbox=around)  # fmt: skip
