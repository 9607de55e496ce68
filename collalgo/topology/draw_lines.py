"""The lines of a picture: links, those with faults, and the legend."""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from collalgo.topology.assumed import marked
from collalgo.topology.model import Link, LinkKind, Topology

COLOURS = {
    LinkKind.NVLINK: "#3f7d00",
    LinkKind.XGMI: "#b0202a",
    LinkKind.ICI: "#00838f",
    LinkKind.C2C: "#8a4fbf",
    LinkKind.PCIE: "#7a828c",
    LinkKind.SMP: "#1f5fa8",
    LinkKind.NETWORK: "#c07800",
}

#: The colours of failed and of slow elements.
FAILED, SLOW = "#e00000", "#ff6a00"

#: The most values that an entry of the legend lists.
MOST_LISTED = 4


class Line(NamedTuple):
    """A line between two places: links of one kind, and the remaining fraction."""

    start: tuple[float, float]
    end: tuple[float, float]
    links: Sequence[Link]
    left: float

    @property
    def style(self) -> dict[str, Any]:
        """The colour and the pattern."""
        if self.left == 0:
            return {"color": FAILED, "linestyle": (0, (3, 2))}
        colour = COLOURS[self.links[0].kind] if self.left == 1 else SLOW
        return {"color": colour, "linestyle": "solid"}


def left_of(links: Sequence[Link], topology: Topology) -> float:
    """The fraction of the bandwidth of whole links that a machine with faults has."""
    rest = whole = 0.0
    for link in links:
        known = topology.between(*link.ends).get(link.kind)
        bandwidth = link.bandwidth or 1.0
        rest += bandwidth * known.fraction if known else 0.0
        whole += bandwidth * link.fraction
    return rest / whole


def draw_lines(axes: Any, lines: Sequence[Line]) -> None:
    """Draw a line between rows, and within a row an arc."""
    many = len(lines) > 150
    opacity = 0.5 if many else 0.85
    straight = [line for line in lines if abs(line.start[1] - line.end[1]) >= 1e-6]
    if straight:  # one object, as thousands take seconds
        _draw_straight(axes, straight, many, opacity)
    for line in lines:
        if abs(line.start[1] - line.end[1]) < 1e-6:
            _draw_arc(axes, line, _width(line, many), opacity)
        if 0 < line.left < 1:
            _draw_fraction(axes, line)


def _width(line: Line, many: bool) -> float:
    return 0.6 if many else 0.8 + 0.9 * min(line.links[0].count, 4)


def _draw_straight(
    axes: Any, lines: Sequence[Line], many: bool, opacity: float
) -> None:
    from matplotlib.collections import LineCollection

    styles = [line.style for line in lines]
    axes.add_collection(
        LineCollection(
            [[line.start, line.end] for line in lines],
            colors=[style["color"] for style in styles],
            linestyles=[style["linestyle"] for style in styles],
            linewidths=[_width(line, many) for line in lines],
            alpha=opacity,
        )
    )


def _bend(line: Line) -> float:
    """The height of an arc over its chord; further ends have flatter arcs."""
    width = line.start[0] - line.end[0]
    return math.copysign(0.2 / math.sqrt(abs(width)), width)


def _draw_arc(axes: Any, line: Line, width: float, opacity: float) -> None:
    arc = {"arrowstyle": "-", "shrinkA": 8, "shrinkB": 8, "lw": width}
    arc |= {"alpha": opacity, "connectionstyle": f"arc3,rad={_bend(line)}"}
    axes.annotate("", line.end, line.start, arrowprops=arc | line.style)


def _draw_fraction(axes: Any, line: Line) -> None:
    """Write the remaining fraction at the middle of a slow line."""
    x, y = ((a + b) / 2 for a, b in zip(line.start, line.end, strict=True))
    is_arc = abs(line.start[1] - line.end[1]) < 1e-6
    axes.annotate(
        f"{line.left:.3g}",
        (x, y),
        (0, _rise(axes, line) if is_arc else 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=8,
        color=SLOW,
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )


def _rise(axes: Any, line: Line) -> float:
    """The points from the chord of an arc to its middle, half of its control point."""
    points = 72 * float(axes.figure.get_figwidth())
    return abs(_bend(line) * (line.start[0] - line.end[0])) * points / 2


def legend(axes: Any, lines: Sequence[Line]) -> None:
    """An entry for each kind of link with its speeds, and for each kind of fault."""
    speeds: dict[LinkKind, dict[str, None]] = {}
    for link in (link for line in lines for link in line.links):
        each = f"{(link.bandwidth or 0.0) / link.count:.4g} GB/s"
        speeds.setdefault(link.kind, {})[each + marked(link.assumed)] = None
    for kind, found in speeds.items():
        label = f"{kind.value} {_listed(found)}"
        axes.plot([], [], color=COLOURS[kind], lw=2, label=label)
    slow = {f"{line.left:.3g}" for line in lines if 0 < line.left < 1}
    if slow:
        axes.plot([], [], color=SLOW, lw=2, label=f"slow, left: {_listed(slow)}")
    if any(line.left == 0 for line in lines):
        axes.plot([], [], color=FAILED, ls="--", lw=2, label="failed")
    if lines:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=3,
                    frameon=False, fontsize=8)  # fmt: skip


def _listed(words: Collection[str]) -> str:
    shown = sorted(words)[:MOST_LISTED]
    return ", ".join(shown) + (", ..." if len(words) > MOST_LISTED else "")
