"""Charts of lines with logarithmic axes, as SVG for pages."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple, TypeAlias

#: Points of a line: x, y, and the words for both.
Points: TypeAlias = Sequence[tuple[float, float, str]]

#: The size of a chart, its left and upper margin, and the size of what is framed.
WIDTH, HEIGHT, LEFT, TOP = 560, 340, 64, 26
INNER = (WIDTH - LEFT - 20, HEIGHT - TOP - 40)

#: The number of colours of the style of pages, and the dashes of further lines.
COLOURS, DASHES = 10, ("", "7 4", "2 3", "9 3 2 3")


class Line(NamedTuple):
    """A line of a chart; a strong one is thick."""

    name: str
    points: Points
    is_strong: bool = False


def style_of(number: int) -> str:
    """The attributes of the stroke of a line by its number."""
    dash = DASHES[number // COLOURS % len(DASHES)]
    return f'class="line k{number % COLOURS}" stroke-dasharray="{dash}"'


def chart(title: str, units: tuple[str, str], lines: Sequence[Line]) -> str:
    """A chart of lines with logarithmic axes, whose ticks the script of pages draws.

    Parameters
    ----------
    title
        Above the chart.
    units
        The words below the axis of x, and beside that of y.
    lines
        The lines; values must be positive, others are left out.
    """
    kept = [line._replace(points=_positive(line.points)) for line in lines]
    points = [point for line in kept for point in line.points]
    if not points:
        return f"<p>{escape(title)}: no values to draw</p>"
    x, y = _Axis.of([p[0] for p in points]), _Axis.of([p[1] for p in points])
    drawn = [_line(i, line, x, y) for i, line in enumerate(kept)]
    label = escape(f"{title}: {units[1]} over {units[0]}")
    ranges = f'data-x="{x.low!r},{x.high!r}" data-y="{y.low!r},{y.high!r}"'
    return (
        f'<figure class="chart"><svg class="whole" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'tabindex="0" role="img" aria-label="{label}" {ranges}>{_frame(title, units)}'
        f'<svg class="inside" x="{LEFT}" y="{TOP}" width="{INNER[0]}" '
        f'height="{INNER[1]}" viewBox="0 0 {INNER[0]} {INNER[1]}">{"".join(drawn)}'
        f'</svg></svg><div class="tools">{"".join(map(_button, KEYS))}</div></figure>'
    )


#: The keys of a chart with their buttons, and what they do.
KEYS = (("+", "+", "zoom in"), ("-", "-", "zoom out"), ("0", "all", "show all"))


def _button(key: tuple[str, str, str]) -> str:
    key_name, shown, words = key
    return (
        f'<button type="button" data-key="{key_name}" title="{words} ({key_name})" '
        f'aria-label="{words}">{shown}</button> '
    )


def _positive(points: Points) -> Points:
    return [p for p in points if p[0] > 0 and p[1] > 0 and math.isfinite(p[1])]


class _Axis(NamedTuple):
    """A logarithmic axis from its lowest to its highest value."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Axis":
        """At least a factor of two, with a margin of a twentieth on both sides."""
        low, high = min(values), max(values)
        if high < 2 * low:
            low, high = low / 2, high * 2
        margin = (high / low) ** 0.05
        return cls(low / margin, high * margin)

    def part(self, value: float) -> float:
        """The place of a value, from 0 to 1."""
        return math.log(value / self.low) / math.log(self.high / self.low)


def _frame(title: str, units: tuple[str, str]) -> str:
    """The title, the units, the place of the ticks, and the frame."""
    return (
        f'<text x="{LEFT}" y="16">{escape(title)}: {escape(units[1])}</text>'
        f'<text x="{LEFT + INNER[0] / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f'{escape(units[0])}</text><g class="ticks"></g><rect class="frame" '
        f'x="{LEFT}" y="{TOP}" width="{INNER[0]}" height="{INNER[1]}"/>'
    )


def _line(number: int, line: Line, x: _Axis, y: _Axis) -> str:
    """A line with a dot for each point, whose title has its values."""
    width, height = INNER
    places = [(width * x.part(p[0]), height * (1 - y.part(p[1]))) for p in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    style = style_of(number)
    style = style.replace("line ", "line strong ") if line.is_strong else style
    dots = "".join(
        f'<circle class="k{number % COLOURS}" cx="{a:.1f}" cy="{b:.1f}" r="3">'
        f"<title>{escape(f'{line.name}: {words}')}</title></circle>"
        for (a, b), (*_, words) in zip(places, line.points, strict=True)
    )
    return f'<g data-line="{number}"><polyline {style} points="{path}"/>{dots}</g>'


def legend(lines: Iterable[str]) -> str:
    """The names of lines, each with a box that shows or hides it."""
    entries = (
        f'<label><input type="checkbox" checked value="{i}"> '
        f'<svg width="28" height="8"><line {style_of(i)} stroke-width="2.5" '
        f'x1="0" x2="28" y1="4" y2="4"/></svg> {escape(name)}</label>'
        for i, name in enumerate(lines)
    )
    return f'<div class="legend">{"".join(entries)}</div>'
