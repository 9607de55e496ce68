"""Plot time and bus bandwidth over size."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from collalgo.bench.records import Record

from collalgo.base import plotting
from collalgo.base.plotting import new_figure


def plot(records: Sequence[Record], path: Path, *, force: bool = False) -> None:
    """Plot a row for each collective; the suffix of the file gives the format.

    Raises
    ------
    ImportError
        Without matplotlib.
    OutputError
        If the file exists and is not a figure that collalgo drew.
    ValueError
        If no record has a size.
    """
    names = list(dict.fromkeys(r.collective for r in records if r.size))
    if not names:
        raise ValueError("there is nothing to draw: no result has a size")
    figure = new_figure(11, 3.6 * len(names))
    axes = figure.subplots(len(names), 2, squeeze=False, sharex=True)
    for (left, right), collective in zip(axes, names, strict=True):
        _draw(left, right, [r for r in records if r.collective == collective])
        left.set_title(collective, loc="left")
        left.set_ylabel("time in us")
        right.set_ylabel("busbw in GB/s")
    for one in axes.flat:
        one.grid(visible=True, alpha=0.3)
    for one in axes[-1]:
        one.set_xlabel("bytes")
    plotting.save(figure, path, force=force)


def _draw(latency: Any, bandwidth: Any, records: Sequence[Record]) -> None:
    """Plot one collective: a line for each contestant or algorithm, ours on top."""
    lines: dict[tuple[str, str, str, str, str], list[Record]] = {}
    ours = {r.algorithm for r in records if r.contestant == "collalgo" and r.predicted}
    sizes = {record.size for record in records}
    several = len(ours) > 1 and len(records) > 2 * len(sizes)
    for record in sorted(records, key=lambda record: record.size):
        mine = record.contestant == "collalgo"
        peers = any(other.contestant != "collalgo" for other in records)
        name = record.algorithm if mine and several and not peers else ""
        label = (record.contestant, record.dtype, record.op, record.place, name)
        lines.setdefault(label, []).append(record)
    shown = [i for i in range(5) if len({label[i] for label in lines}) > 1] or [0]
    for label, points in lines.items():
        name = " ".join(label[i] for i in shown if label[i])
        style: dict[str, Any] = {"marker": ".", "label": name}
        if label[0] == "collalgo":
            style |= {"linewidth": 2.5, "zorder": 3}
        x = [record.size for record in points]
        latency.loglog(x, [median(r.runs) * 1e6 for r in points], **style)
        bandwidth.loglog(x, [r.busbw / 1e9 for r in points], **style)
    latency.legend(fontsize="x-small")
