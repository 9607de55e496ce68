"""The lines of a picture with their speeds, those with faults, and the legend."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collalgo.topology.assumed import ASSUMED
from collalgo.topology.draw_layout import Layout, Point, size_of
from collalgo.topology.draw_sketch import Line, Sketch
from collalgo.topology.model import LinkKind

COLOURS = {
    LinkKind.NVLINK: "#3f7d00",
    LinkKind.XGMI: "#b0202a",
    LinkKind.ICI: "#00838f",
    LinkKind.C2C: "#8a4fbf",
    LinkKind.PCIE: "#69717b",
    LinkKind.SMP: "#1f5fa8",
    LinkKind.NETWORK: "#a35f00",
}

#: The colours of failed and of slow elements.
FAILED, SLOW = "#e00000", "#ff6a00"

#: How much of the way to white the slowest speed of a kind is.
LIGHTEST = 0.55

#: The most speeds of a kind in the legend, and the most lines that all have a label.
MOST_LISTED, MOST_LABELLED = 4, 48

#: Points of an arc, and where its label may be, as parts of its length.
POINTS, PARTS = 25, (12, 9, 15, 7, 17, 5, 19)

#: A kind of link and its speed, which have a colour.
Class: TypeAlias = tuple[LinkKind, str]

Curve: TypeAlias = npt.NDArray[np.float64]


def shades(speeds: Collection[str], colour: str) -> dict[str, str]:
    """A colour for each speed in words, the lighter the slower."""
    order = sorted({*speeds}, key=_number, reverse=True)
    step = LIGHTEST / max(len(order) - 1, 1)
    return {speed: _lighter(colour, step * i) for i, speed in enumerate(order)}


def _number(speed: str) -> float:
    return float(speed.partition(",")[0]) if speed[:1].isdigit() else 0.0


def _lighter(colour: str, part: float) -> str:
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(one + (255 - one) * part):02x}" for one in parts)


def colours_of(lines: Sequence[Line]) -> dict[Class, str]:
    """The colour of each kind and speed, the fastest of a kind first."""
    speeds: dict[LinkKind, list[str]] = {}
    for line in lines:
        speeds.setdefault(line.kind, []).append(line.speed)
    return {
        (kind, speed): colour
        for kind, found in speeds.items()
        for speed, colour in shades(found, COLOURS[kind]).items()
    }


def draw_lines(axes: Any, sketch: Sketch, layout: Layout) -> None:
    """Draw all lines, with their labels where these do not cover anything."""
    from matplotlib.collections import LineCollection

    colours, lines = colours_of(sketch.lines), sketch.lines
    curves = [
        _curve(layout.places[line.ends[0]], layout.places[line.ends[1]], bend)
        for line, bend in zip(lines, layout.bends, strict=True)
    ]
    many = len(lines) > MOST_LABELLED
    axes.add_collection(
        LineCollection(
            curves,
            colors=[_colour(line, colours) for line in lines],
            linestyles=[(0, (3, 2)) if line.left == 0 else "solid" for line in lines],
            linewidths=[_width(line, many) for line in lines],
            alpha=0.7 if many else 0.9,
        )
    )
    _draw_labels(axes, sketch, layout, curves, colours)


def _colour(line: Line, colours: Mapping[Class, str]) -> str:
    if line.left == 0:
        return FAILED
    return colours[line.kind, line.speed] if line.left == 1 else SLOW


def _width(line: Line, many: bool) -> float:
    cables = sum(link.count for link in line.links)
    return (0.6 if many else 1.0) * (0.9 + 0.6 * min(cables, 4))


def _curve(start: Point, end: Point, bend: float) -> Curve:
    """The points of a line, or of an arc, which is a parabola."""
    a, b = np.array(start), np.array(end)
    way = b - a
    left = np.array([-way[1], way[0]]) / (np.hypot(*way) or 1.0)
    t = np.linspace(0, 1, POINTS if bend else 2)[:, None]
    curve: Curve = a + way * t + left * bend * 4 * t * (1 - t)
    return curve


def _draw_labels(
    axes: Any,
    sketch: Sketch,
    layout: Layout,
    curves: Sequence[Curve],
    colours: Mapping[Class, str],
) -> None:
    """Write the speeds at the lines; of very many, only at the first of each sort."""
    covered = [
        (*layout.places[name], *size_of(box)) for name, box in sketch.boxes.items()
    ]
    seen: set[object] = set()
    for line, curve in zip(sketch.lines, curves, strict=True):
        layers = frozenset(sketch.boxes[end].layer for end in line.ends)
        sort = (line.label, line.kind, line.left, layers)
        skipped = len(sketch.lines) > MOST_LABELLED and sort in seen
        rest = f", {line.left:.3g} left" if line.left else " failed"
        words = line.label + rest * (line.left < 1)
        place = _free(words, curve, covered) if line.left < 1 or not skipped else None
        if place:
            seen.add(sort)
            covered.append(place)
            _write(axes, words, place, _colour(line, colours))


Area: TypeAlias = tuple[float, float, float, float]


def _free(words: str, curve: Curve, covered: Sequence[Area]) -> Area | None:
    """An area on a line that covers nothing: its middle, width and height, or None."""
    width, height = 0.068 * len(words) + 0.06, 0.15
    for part in PARTS:
        t = part / (POINTS - 1)
        at = t * (len(curve) - 1)
        first = min(int(at), len(curve) - 2)
        x, y = curve[first] + (curve[first + 1] - curve[first]) * (at - first)
        if all(
            abs(x - cx) >= (width + w) / 2 or abs(y - cy) >= (height + h) / 2
            for cx, cy, w, h in covered
        ):
            return float(x), float(y), width, height
    return None


def _write(axes: Any, words: str, place: Area, colour: str) -> None:
    around = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.9}
    axes.text(place[0], place[1], words, ha="center", va="center", fontsize=7,
              color=_darker(colour), bbox=around)  # fmt: skip


def _darker(colour: str) -> str:
    """A colour that is legible on white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{int(one * 0.7):02x}" for one in parts)


def legend(axes: Any, lines: Sequence[Line], width: float) -> int:
    """An entry for each kind of link and speed, and for faults; the number of rows."""
    entries = [*_entries(lines)]
    for words, colour, style in entries:
        axes.plot([], [], color=colour, ls=style, lw=2.5, label=words)
    columns = max(1, min(int(width / 2.3), len(entries)))
    if lines:
        title = "on the lines: cables x GB/s, in each direction"
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=columns,
                    frameon=False, fontsize=8, title=title, title_fontsize=8,
                    borderaxespad=0.1)  # fmt: skip
    return -(-len(entries) // columns)


def _entries(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    """The words, the colour and the style of each entry of the legend."""
    assumed = {(line.kind, line.speed) for line in lines if line.is_assumed}
    listed = {kind: count() for kind in COLOURS}
    for (kind, speed), colour in colours_of(lines).items():
        number = next(listed[kind])
        mark = f" ({ASSUMED})" if (kind, speed) in assumed else ""
        if number < MOST_LISTED:
            yield f"{kind.value} {speed} GB/s{mark}", colour, "-"
        elif number == MOST_LISTED:
            yield f"slower {kind.value}", colour, "-"
    if any(0 < line.left < 1 for line in lines):
        yield "slow, with what is left", SLOW, "-"
    if any(line.left == 0 for line in lines):
        yield "failed", FAILED, "--"
