"""Drawings of a schedule, steps against ranks, for the terminal or as SVG."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from rich.table import Table

from collalgo.base import output_files
from collalgo.schedule.chunk import Chunks
from collalgo.schedule.replay import Replay
from collalgo.schedule.steps import Kind, Step, Transfer

#: The signs of the verbs in a table.
SIGNS = {Kind.SEND: "→", Kind.RECV: "←", Kind.RECV_REDUCE: "⊕"}

DRAWING = output_files.Format("a drawing")

COPIED, REDUCED = "#2166ac", "#b2182b"
COLUMN, ROW, MARGIN = 90, 44, 60


def table(schedules: Sequence[Sequence[Step]]) -> Table:
    """The schedule as text: a row for each step, a column for each rank."""
    drawn = Table(show_lines=True, caption="→ send  ← receive  ⊕ reduce")
    drawn.add_column("step", justify="right")
    for rank in range(len(schedules)):
        drawn.add_column(f"rank {rank}", no_wrap=True)
    for number in range(max(map(len, schedules))):
        cells = (
            "\n".join(map(_cell, steps[number])) if number < len(steps) else ""
            for steps in schedules
        )
        drawn.add_row(str(number), *cells)
    return drawn


def _cell(transfer: Transfer) -> str:
    return f"{SIGNS[transfer.kind]}{transfer.peer} {_label(transfer.chunks)}".rstrip()


def _label(chunks: Chunks) -> str:
    """The first chunks of a message, and the number of further ones."""
    shown = " ".join(map(str, chunks[:2]))
    return f"{shown} +{len(chunks) - 2}" if len(chunks) > 2 else shown


def svg(schedules: Sequence[Sequence[Step]], title: str) -> str:
    """The schedule as SVG: an arrow for each message, down the steps."""
    replay = Replay(schedules)
    steps = max(map(len, schedules))
    width = 2 * MARGIN + COLUMN * (len(schedules) - 1)
    height = 2 * MARGIN + ROW * max(steps, 1)
    root = _canvas(width, height)
    _text(root, width / 2, 20, title, size=13)
    for rank in range(len(schedules)):
        x = MARGIN + COLUMN * rank
        _text(root, x, MARGIN - 14, f"rank {rank}")
        _line(root, (x, MARGIN - 8), (x, height - MARGIN / 2), "#bbbbbb")
    for step in range(steps):
        _text(root, 16, MARGIN + ROW * step + ROW / 2, str(step))
    for message in range(len(replay.out)):
        _arrow(root, replay, message)
    root.append(ET.Comment(f" {DRAWING.mark} "))
    return ET.tostring(root, encoding="unicode") + "\n"


def _canvas(width: int, height: int) -> ET.Element:
    """An empty drawing, with the heads of its arrows."""
    root = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
    )
    root.set("font-family", "sans-serif")
    root.set("font-size", "10")
    _heads(root)
    return root


def _heads(root: ET.Element) -> None:
    """Define the heads of the arrows."""
    definitions = ET.SubElement(root, "defs")
    for color in (COPIED, REDUCED):
        marker = ET.SubElement(
            definitions,
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


def _arrow(root: ET.Element, replay: Replay, message: int) -> None:
    """Draw a message from the step of its sender to that of its receiver."""
    sender, out = replay.where(replay.out[message])
    receiver, into = replay.where(replay.into[message])
    taken = replay.kind[replay.message_of == message]
    color = REDUCED if (taken == 2).any() else COPIED
    slope = 6 + 3 * min(abs(receiver - sender), 8)
    start = MARGIN + COLUMN * sender, MARGIN + ROW * out + 4
    end = MARGIN + COLUMN * receiver, MARGIN + ROW * into + 4 + slope
    line = _line(root, start, end, color)
    line.set("marker-end", f"url(#head{color[1:]})")
    label = _label(replay.places[replay.sent[message]])
    near = 0.25  # of the way, so that messages that cross keep their labels apart
    x, y = (a + near * (b - a) for a, b in zip(start, end, strict=True))
    _text(root, x, y - 2, label, color=color)


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
