"""When each rank sends what to whom: as a picture, or as a trace for a browser."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from collalgo.base import (
    chrome_trace as trace_events,
    output_files,
    plotting as pictures,
)
from collalgo.base.chrome_trace import Event
from collalgo.base.plotting import new_figure
from collalgo.base.units import human, human_time
from collalgo.cost.fluid import Play
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.messages import Messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.cost.simulation import Job
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.transfers import Reals
from collalgo.topology.model import Topology

#: More messages than this are not drawn: nobody could see them.
DRAWN = 20_000


class Timeline(NamedTuple):
    """The messages of a schedule with their times on a topology.

    Attributes
    ----------
    title : str
        What is shown.
    places : sequence of str
        The device of each rank.
    sends : Messages
        The messages.
    nbytes, begin, end : ndarray
        The bytes of each, when it leaves its rank, and when all of it has come.
    """

    title: str
    places: Sequence[str]
    sends: Messages
    nbytes: Reals
    begin: Reals
    end: Reals

    def chrome(self) -> dict[str, Any]:
        """The trace that Perfetto and ``chrome://tracing`` read; times in microseconds.

        Each rank has a track with its steps, in them what it sends and receives, and
        an arrow for each message.
        """
        return trace_events.document(self._events())

    def _events(self) -> Iterator[Event]:
        for rank, place in enumerate(self.places):
            yield trace_events.title(rank, f"rank {rank}, {place}")
        for (rank, step), (begin, end) in self.spans().items():
            yield trace_events.span(rank, f"step {step}", begin * 1e6, end * 1e6)
        for i in range(len(self.begin)):
            source, target = int(self.sends.rank[i]), int(self.sends.peer[i])
            begin, end = float(self.begin[i]) * 1e6, float(self.end[i]) * 1e6
            about = {"bytes": float(self.nbytes[i]), "step": int(self.sends.step[i])}
            what = human(float(self.nbytes[i]))
            yield trace_events.span(source, f"{what} to {target}", begin, end, about)
            yield trace_events.tail(source, i, "message", begin)
            yield trace_events.head(target, i, "message", end)

    def spans(self) -> dict[tuple[int, int], tuple[float, float]]:
        """From when to when each rank is in each of its steps."""
        found: dict[tuple[int, int], tuple[float, float]] = {}
        for ranks in (self.sends.rank, self.sends.peer):
            columns = (ranks, self.sends.step, self.begin, self.end)
            for rank, step, begin, end in zip(
                *map(np.ndarray.tolist, columns), strict=True
            ):
                first, last = found.get((rank, step), (begin, end))
                found[rank, step] = min(first, begin), max(last, end)
        return found

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write a trace (``.json``) or a picture, by the ending of the name.

        Raises
        ------
        TopologyError
            If there are too many messages to draw.
        OutputError
            If the file cannot be written or, unless by ``force``, holds anything that
            was not written so.
        ImportError
            For a picture without matplotlib; ``pip install 'collalgo[plot]'``.
        """
        if path.suffix == ".json":
            found = json.dumps(self.chrome())
            output_files.write(path, found, trace_events.TRACE, force=force)
        else:
            self.draw(path, force=force)

    def draw(self, path: Path, *, force: bool = False) -> None:
        """Draw the ranks against the time: their steps, and a line for each message."""
        if len(self.begin) > DRAWN:
            raise TopologyError(
                f"{len(self.begin)} messages are too many to be drawn; at most {DRAWN} "
                "are, or write a trace (.json)"
            )
        figure = new_figure(11, 1.5 + 0.3 * len(self.places))
        axes = figure.subplots()
        spans = self.spans()
        for parity, color in enumerate(("#d1e5f0", "#f0f0f0")):
            chosen = [(k, v) for k, v in spans.items() if k[1] % 2 == parity]
            axes.barh(
                [rank for (rank, _), _ in chosen],
                [(end - begin) * 1e6 for _, (begin, end) in chosen],
                left=[begin * 1e6 for _, (begin, _) in chosen],
                height=0.8,
                color=color,
            )
        host = [place.partition("/")[0] for place in self.places]
        for i in range(len(self.begin)):
            a, b = int(self.sends.rank[i]), int(self.sends.peer[i])
            times = [self.begin[i] * 1e6, self.end[i] * 1e6]
            color = "#2166ac" if host[a] == host[b] else "#b2182b"
            axes.plot(times, [a, b], color=color, linewidth=0.6)
        axes.set_yticks(range(len(self.places)), self.places, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("microseconds; red crosses hosts")
        axes.set_title(self.title, loc="left", fontsize=10)
        pictures.save(figure, path, force=force)


def timeline(
    algorithm: str | ScheduleFunction,
    topology: Topology,
    nbytes: float,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
    figures: LinkModel = DEFAULTS,
    model: str = "fluid",
) -> Timeline:
    """When each message of a schedule is under way; see :func:`collalgo.simulate`."""
    site = Placement(topology, order or (), figures)
    job = Job.of(algorithm, collective, site.size, nbytes)
    messages = site.messages(job.schedule, root)
    if model == "fluid":
        play = Play(messages, job.whole, site.roads)
        seconds = play.run()
        begin, end = play.begin, play.end
    else:
        found = rounds(messages, site.roads)
        steps = found.latency + job.whole * found.per_byte
        ends = np.cumsum(steps)
        step = messages.sends.step
        begin, end, seconds = ends[step] - steps[step], ends[step], float(steps.sum())
    title = (
        f"{collective} by {job.name} of {human(nbytes)} on {topology.name}: "
        f"{human_time(seconds)} (model: {model})"
    )
    sends = messages.sends
    return Timeline(title, site.places, sends, sends.share * job.whole, begin, end)
