"""A schedule as SVG: an arrow for each message, from rank to rank, down the steps.

The messages of a step whose ways overlap are on tracks of their own, so that their
labels are apart.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from collalgo.base import output_files
from collalgo.schedule.drawing import label
from collalgo.schedule.replay import Replay
from collalgo.schedule.steps import Step

DRAWING = output_files.Format("a drawing", endings=("svg",))

COPIED, REDUCED = "#2166ac", "#b2182b"

#: Pixels: between ranks at least, around the picture, and of a letter of a label.
COLUMN, MARGIN, LETTER = 90, 60, 6.2

#: Pixels of a track, of a step without its tracks, and of the least and highest steps.
TRACK, STEP, LEAST, HIGHEST = 20, 14, 44, 1200


class Arrow(NamedTuple):
    """A message: its ranks, its steps, its track in the step of its sender."""

    sender: int
    receiver: int
    out: int
    into: int
    track: int
    is_reduced: bool
    words: str

    @property
    def color(self) -> str:
        return REDUCED if self.is_reduced else COPIED


def svg(schedules: Sequence[Sequence[Step]], title: str) -> str:
    """The schedule as a file."""
    root = _picture(schedules, title)
    root.append(ET.Comment(f" {DRAWING.mark} "))
    return ET.tostring(root, encoding="unicode") + "\n"


def arrows_of(replay: Replay) -> list[Arrow]:
    """The messages, short ways first, each on the first free track of its step."""
    found = [_arrow(replay, message) for message in range(len(replay.out))]
    found.sort(key=lambda arrow: (arrow.out, abs(arrow.receiver - arrow.sender)))
    tracks: dict[int, list[int]] = {}  # the columns that are taken, as bits
    for i, arrow in enumerate(found):
        low, high = sorted((arrow.sender, arrow.receiver))
        way, of_step = (1 << high) - (1 << low), tracks.setdefault(arrow.out, [])
        free = (n for n, taken in enumerate(of_step) if not taken & way)
        number = next(free, len(of_step))
        if number == len(of_step):
            of_step.append(0)
        of_step[number] |= way
        found[i] = arrow._replace(track=number)
    return found


def _arrow(replay: Replay, message: int) -> Arrow:
    sender, out = replay.where(replay.out[message])
    receiver, into = replay.where(replay.into[message])
    is_reduced = bool((replay.kind[replay.message_of == message] == 2).any())
    words = label(replay.places[replay.sent[message]])
    return Arrow(sender, receiver, out, into, 0, is_reduced, words)


class _Frame(NamedTuple):
    """Pixels: of rank 0, between ranks, the top of each step, and of its tracks."""

    left: float
    column: float
    tops: list[float]
    track: list[float]

    def x(self, rank: int) -> float:
        return self.left + self.column * rank

    def y(self, arrow: Arrow) -> float:
        return self.tops[arrow.out] + self.track[arrow.out] * (arrow.track + 0.8)


def _frame(arrows: Sequence[Arrow], steps: int) -> _Frame:
    longest = max((len(arrow.words) for arrow in arrows), default=0)
    counts = [0] * steps
    for arrow in arrows:
        counts[arrow.out] = max(counts[arrow.out], arrow.track + 1)
    track = [min(TRACK, HIGHEST / max(count, 1)) for count in counts]
    tops = [float(MARGIN)]
    for count, height in zip(counts, track, strict=True):
        tops.append(tops[-1] + max(STEP + count * height, LEAST))
    return _Frame(MARGIN, max(COLUMN, LETTER * longest + 16), tops, track)


def _picture(schedules: Sequence[Sequence[Step]], title: str) -> ET.Element:
    ranks, steps = len(schedules), max(map(len, schedules))
    arrows = arrows_of(Replay(schedules))
    frame = _frame(arrows, steps)
    narrow = frame.x(ranks - 1) + MARGIN
    width = max(narrow, 7 * len(title) + 20)  # pixels of letters
    frame = frame._replace(left=MARGIN + (width - narrow) / 2)
    root = _canvas(width, frame.tops[-1] + MARGIN / 2)
    _text(root, width / 2, 20, title, size=13)
    _draw_axes(root, frame, ranks, width)
    for arrow in arrows:
        _draw(root, frame, arrow)
    for i, (words, color) in enumerate((("copied", COPIED), ("reduced", REDUCED))):
        _text(root, frame.left + 60 * i, frame.tops[-1] + 20, words, color=color)
    return root


def _draw_axes(root: ET.Element, frame: _Frame, ranks: int, width: float) -> None:
    """Draw a column for each rank, and a rule above each step."""
    for rank in range(ranks):
        x = frame.x(rank)
        _text(root, x, MARGIN - 14, f"rank {rank}")
        _line(root, (x, MARGIN - 8), (x, frame.tops[-1] + 4), "#bbbbbb")
    for step, y in enumerate(frame.tops[:-1]):
        _line(root, (4, y - 1), (width - 4, y - 1), "#eeeeee")
        _text(root, 18, y + 14, str(step))


def _canvas(width: float, height: float) -> ET.Element:
    """A white drawing, with the heads of its arrows."""
    root = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
    )
    root.set("font-family", "sans-serif")
    root.set("font-size", "10")
    ET.SubElement(root, "rect", width="100%", height="100%", fill="#ffffff")
    root.append(ET.Element("defs"))
    root[-1].extend(_heads())
    return root


def _heads() -> Iterator[ET.Element]:
    """The heads of the arrows."""
    for color in (COPIED, REDUCED):
        marker = ET.Element(
            "marker",
            id=f"head{color[1:]}",
            viewBox="0 0 8 8",
            refX="8",
            refY="4",
            markerWidth="6",
            markerHeight="6",
            orient="auto",
        )
        ET.SubElement(marker, "path", d="M0 0L8 4L0 8z", fill=color)
        yield marker


def _draw(root: ET.Element, frame: _Frame, arrow: Arrow) -> None:
    """Draw a message and, where a track has room for it, its label."""
    height = frame.track[arrow.out]
    start = frame.x(arrow.sender), frame.y(arrow) - 0.1 * height
    end = frame.x(arrow.receiver), frame.y(arrow) + 0.1 * height
    if arrow.into != arrow.out:
        end = end[0], frame.tops[arrow.into] + 2
    line = _line(root, start, end, arrow.color)
    line.set("marker-end", f"url(#head{arrow.color[1:]})")
    about = f"step {arrow.out}: rank {arrow.sender} to rank {arrow.receiver}"
    ET.SubElement(line, "title").text = f"{about}, {arrow.words}"
    if height >= TRACK / 2:
        middle = (start[0] + end[0]) / 2
        if arrow.into != arrow.out:  # near the sender, on its own track
            middle = start[0] + (1 if end[0] > start[0] else -1) * frame.column / 2
        _text(root, middle, start[1] - 1, arrow.words, color=arrow.color)


def _line(
    root: ET.Element,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str,
) -> ET.Element:
    (x1, y1), (x2, y2) = start, end
    line = ET.SubElement(root, "line", stroke=color)
    for name, value in {"x1": x1, "y1": y1, "x2": x2, "y2": y2}.items():
        line.set(name, f"{value:g}")
    return line


def _text(
    root: ET.Element,
    x: float,
    y: float,
    words: str,
    *,
    size: int = 10,
    color: str = "#000000",
) -> None:
    text = ET.SubElement(root, "text", x=f"{x:g}", y=f"{y:g}", fill=color)
    text.set("text-anchor", "middle")
    text.set("font-size", str(size))
    text.text = words
