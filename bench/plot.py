"""Plot time and bus bandwidth over size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from collalgo.bench.records import Record

from collalgo.base import plotting
from collalgo.base.plotting import new_figure

#: The styles of lines, each with every colour of matplotlib's cycle in turn.
STYLES, COLOURS = ("-", "--", ":", "-."), 10

#: The most lines whose legend stands inside of the axes.
MOST_INSIDE = 8


def plot(
    results: Mapping[str, Sequence[Record]], path: Path, *, force: bool = False
) -> None:
    """Plot a row for each collective; the suffix of the file gives the format.

    Parameters
    ----------
    results
        The records of one or several measurements, by the name in the legend.
    path
        The file to write.
    force
        Write over a file that collalgo has not written.

    Raises
    ------
    ImportError
        Without matplotlib.
    OutputError
        If the file exists and is not a figure that collalgo drew.
    ValueError
        If no record has a size.
    """
    found = [r for records in results.values() for r in records if r.size]
    names = list(dict.fromkeys(r.collective for r in found))
    if not names:
        raise ValueError("there is nothing to draw: no result has a size")
    figure = new_figure(11, 3.6 * len(names))
    axes = figure.subplots(len(names), 2, squeeze=False, sharex=True)
    for (left, right), collective in zip(axes, names, strict=True):
        _draw(left, right, lines_of(results, collective))
        left.set_title(collective, loc="left")
        left.set_ylabel("time in us")
        right.set_ylabel("busbw in GB/s")
    for one in axes.flat:
        one.grid(visible=True, alpha=0.3)
    for one in axes[-1]:
        one.set_xlabel("bytes")
    plotting.save(figure, path, force=force)


def lines_of(
    results: Mapping[str, Sequence[Record]], collective: str
) -> dict[str, list[Record]]:
    """The records of each line of a collective, by size and by the name of the line.

    The name has what differs among the lines: measurement, contestant, dtype, op,
    place, and the algorithm if several were measured side by side.
    """
    lines: dict[tuple[str, ...], list[Record]] = {}
    for source, every in results.items():
        records = [r for r in every if r.collective == collective]
        several = _are_rivals(records)
        for record in sorted(records, key=lambda record: record.size):
            name = record.algorithm if several else ""
            label = (source, record.contestant, record.dtype, record.op, record.place)
            lines.setdefault((*label, name), []).append(record)
    shown = [i for i in range(6) if len({label[i] for label in lines}) > 1] or [1]
    return {
        " ".join(label[i] for i in shown if label[i]): points
        for label, points in lines.items()
    }


def _are_rivals(records: Sequence[Record]) -> bool:
    """Whether a cell has several algorithms of ours, and there are no peers."""
    peers = any(record.contestant != "collalgo" for record in records)
    return len({record[1:9] for record in records}) < len(records) and not peers


def _draw(latency: Any, bandwidth: Any, lines: Mapping[str, Sequence[Record]]) -> None:
    """Plot one collective; lines of ours are on top, and thick among those of peers."""
    contestants = {points[0].contestant for points in lines.values()}
    for i, (name, points) in enumerate(lines.items()):
        style: dict[str, Any] = {
            "marker": ".",
            "label": name,
            "color": f"C{i % COLOURS}",
        }
        style["linestyle"] = STYLES[i // COLOURS % len(STYLES)]
        if points[0].contestant == "collalgo":
            style |= {"linewidth": 2.5 if len(contestants) > 1 else 1.5, "zorder": 3}
        x = [record.size for record in points]
        latency.loglog(x, [median(r.runs) * 1e6 for r in points], **style)
        bandwidth.loglog(x, [r.busbw / 1e9 for r in points], **style)
    if len(lines) > MOST_INSIDE:
        bandwidth.legend(
            fontsize="x-small", loc="upper left", bbox_to_anchor=(1.02, 1.0)
        )
    else:
        latency.legend(fontsize="x-small")
