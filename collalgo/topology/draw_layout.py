"""Where the boxes of a picture are, in inches: on layers, on a grid or on circles."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypeAlias

from collalgo.topology.draw_sketch import Box, Sketch

#: A place in inches from the lower left corner.
Point: TypeAlias = tuple[float, float]

#: The inches of a character and of a line of text in a box, and around a box.
CHARACTER, LINE, PADDING = 0.072, 0.14, 0.13

#: The least inches between two layers, those of a label, and of the widest row.
GAP, LABEL, WIDEST = 1.15, 0.55, 60.0

#: The inches of the narrowest picture, whose legend has a heading.
NARROWEST = 3.8

#: The inches by which the planes of a grid of three dimensions are shifted.
SHIFT = (0.3, 0.42)


class Layout(NamedTuple):
    """The places of boxes in inches, and the height of the arc of each line.

    A line is straight unless a box is in its way.
    """

    places: dict[str, Point]
    bends: list[float]
    width: float
    height: float


def size_of(box: Box) -> Point:
    """The width and the height of a box, in inches."""
    lines = box.label.split("\n")
    return (
        CHARACTER * max(map(len, lines)) + 2 * PADDING,
        LINE * len(lines) + PADDING,
    )


def layout_of(sketch: Sketch, dims: Sequence[int]) -> Layout:
    """Places for all boxes; ``dims`` are those of the grid of hosts, if any."""
    if 2 <= len(dims) <= 3 and sketch.is_network:
        return _framed(_grid(sketch, dims), sketch)
    within = sum(_is_within_a_layer(line.ends, sketch.boxes) for line in sketch.lines)
    if sketch.is_network and 3 * within > len(sketch.lines):
        return _framed(_circles(sketch), sketch)
    return _framed(_layers(sketch), sketch)


def _is_within_a_layer(ends: tuple[str, str], boxes: Mapping[str, Box]) -> bool:
    return boxes[ends[0]].layer == boxes[ends[1]].layer


def _rows(sketch: Sketch) -> list[list[str]]:
    """The boxes of each layer, the highest first."""
    rows: dict[int, list[str]] = defaultdict(list)
    for name, box in sketch.boxes.items():
        rows[box.layer].append(name)
    return [rows[layer] for layer in sorted(rows)]


def _layers(sketch: Sketch) -> dict[str, Point]:
    """Rows of boxes, each as wide as the widest; arcs need room above their row."""
    rows = _rows(sketch)
    width = min(max(*(_width(row, sketch) for row in rows), 4.0), WIDEST)
    places: dict[str, Point] = {}
    height = 0.0
    for row in rows:
        pitch = width / len(row)
        arcs = [_rise(n * pitch) for n in _distances(row, sketch) if n > 1]
        height -= GAP + max(arcs, default=0.0)
        places |= {n: ((i + 0.5) * pitch, height) for i, n in enumerate(row)}
    return places


def _width(row: Sequence[str], sketch: Sketch) -> float:
    """The inches of a row, with room for the labels of lines between neighbours."""
    gap = LABEL if 1 in _distances(row, sketch) else 0.25
    return len(row) * (gap + max(size_of(sketch.boxes[name])[0] for name in row))


def _distances(row: Sequence[str], sketch: Sketch) -> list[int]:
    """How far apart the boxes of a row are that are linked."""
    number = {name: i for i, name in enumerate(row)}
    return [
        abs(number[a] - number[b])
        for a, b in (line.ends for line in sketch.lines)
        if a in number and b in number
    ]


def _grid(sketch: Sketch, dims: Sequence[int]) -> dict[str, Point]:
    """The first dimension to the right, the second down, the third behind."""
    columns, rows, planes = (*dims, 1)[:3]
    largest = [max(s) for s in zip(*map(size_of, sketch.boxes.values()), strict=True)]
    shift = max(SHIFT[0], 0.3 * largest[0]), max(SHIFT[1], largest[1] + 0.1)
    step_x = largest[0] + 0.65 + shift[0] * (planes - 1)
    step_y = largest[1] + 0.6 + shift[1] * (planes - 1)
    places = {}
    for i, name in enumerate(sketch.boxes):
        x, y, z = i % columns, i // columns % rows, i // (columns * rows)
        places[name] = x * step_x + z * shift[0], -y * step_y + z * shift[1]
    return places


def _circles(sketch: Sketch) -> dict[str, Point]:
    """A circle for each layer, the highest innermost; hosts are beside their switch."""
    places: dict[str, Point] = {}
    angles: dict[str, float] = {}
    radius = 0.0
    for row in _rows(sketch):
        order = sorted(row, key=_angle_of_neighbours(sketch, angles))
        angles |= {n: 2 * math.pi * i / len(row) for i, n in enumerate(order)}
        wide = max(size_of(sketch.boxes[name])[0] for name in row) + 0.2
        radius = max(radius + 1.2, wide * len(row) / (2 * math.pi))
        for name in row:
            angle = math.pi / 2 - angles[name]
            places[name] = radius * math.cos(angle), radius * math.sin(angle)
    return places


def _angle_of_neighbours(
    sketch: Sketch, angles: Mapping[str, float]
) -> Callable[[str], float]:
    """For a box the mean angle of those that it is linked to, of the circle within."""
    near: dict[str, list[float]] = defaultdict(list)
    for line in sketch.lines:
        for end, other in (line.ends, line.ends[::-1]):
            if other in angles:
                near[end].append(angles[other])
    return lambda name: fmean(near[name]) if near[name] else 0.0


def _framed(places: dict[str, Point], sketch: Sketch) -> Layout:
    """Moved to the corner, with margins for boxes and arcs."""
    bends = _beside(sketch)
    for i, line in enumerate(sketch.lines):
        if _is_within_a_layer(line.ends, sketch.boxes):
            bends[i] += _bend(places, line.ends)
    arcs = 0.35 + max(map(abs, bends), default=0.0)
    sizes = {name: size_of(box) for name, box in sketch.boxes.items()}
    right = max(places[n][0] + sizes[n][0] / 2 for n in places)
    left = min(places[n][0] - sizes[n][0] / 2 for n in places)
    top = max(places[n][1] + sizes[n][1] / 2 for n in places)
    bottom = min(places[n][1] - sizes[n][1] / 2 for n in places)
    width = max(right - left + 2 * arcs, NARROWEST)
    shift = (width - right - left) / 2
    moved = {n: (x + shift, y - bottom + 0.2) for n, (x, y) in places.items()}
    return Layout(moved, bends, width, top - bottom + 0.2 + arcs)


def _bend(places: Mapping[str, Point], ends: tuple[str, str]) -> float:
    """The height of the arc of a line, 0 unless a box is in its way.

    It is positive to the left of the way from the first end to the second.
    """
    (ax, ay), (bx, by) = (places[end] for end in ends)
    length = math.hypot(bx - ax, by - ay) or 1.0
    for name, (x, y) in places.items():
        along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length
        across = ((x - ax) * (by - ay) - (y - ay) * (bx - ax)) / length
        if name not in ends and 0 < along < length and abs(across) < 0.12:
            is_level = abs(by - ay) < abs(bx - ax)  # up, or else to the right
            return math.copysign(_rise(length), bx - ax if is_level else ay - by)
    return 0.0


def _rise(span: float) -> float:
    """The height of an arc of a length."""
    return min(0.3 + 0.1 * span, 1.3)


def _beside(sketch: Sketch) -> list[float]:
    """Further bends for lines between the same boxes, so that all are seen."""
    seen: dict[frozenset[str], int] = defaultdict(int)
    found = []
    for line in sketch.lines:
        number = seen[frozenset(line.ends)]
        seen[frozenset(line.ends)] += 1
        found.append(0.25 * number)
    return found
