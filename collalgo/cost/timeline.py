"""The timeline of the messages of a schedule, as a picture or as a trace."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from collalgo.algorithms.table import shortened
from collalgo.base import (
    chrome_trace,
    output_files,
    plotting,
)
from collalgo.base.chrome_trace import Event
from collalgo.base.plotting import literal, new_figure
from collalgo.base.units import human, human_time
from collalgo.cost.fluid import FluidSimulation
from collalgo.cost.job import Job
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.machine import check_machine, check_root
from collalgo.cost.messages import Messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.cost.routing import Routing
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.topology.model import Topology

#: The most messages in a picture; more would not be legible.
DRAWN = 20_000

#: The colours of even and odd steps, and of messages by whether they cross hosts.
STEPS = (("#cfe3f1", "even steps"), ("#ece2c6", "odd steps"))
MESSAGES = {
    False: ("#2166ac", "messages within a host"),
    True: ("#b2182b", "messages between hosts"),
}


class Timeline(NamedTuple):
    """The messages of a schedule and their times on a topology.

    Attributes
    ----------
    title : str
        The title of the picture.
    devices : sequence of str
        The device of each rank.
    sends : Messages
        The messages.
    nbytes, begin, end : ndarray
        The bytes of each message, the time it leaves its sender, and the time all of it
        has arrived.
    """

    title: str
    devices: Sequence[str]
    sends: Messages
    nbytes: Reals
    begin: Reals
    end: Reals

    def chrome(self) -> dict[str, Any]:
        """A trace for Perfetto and ``chrome://tracing``, with times in microseconds.

        Each rank has a track with its steps and its messages within them; an arrow
        joins the sender and the receiver of a message.
        """
        return chrome_trace.document(self._events())

    def _events(self) -> Iterator[Event]:
        for rank, device in enumerate(self.devices):
            yield chrome_trace.title(rank, f"rank {rank}, {device}")
        for (rank, step), (begin, end) in self.spans().items():
            yield chrome_trace.span(rank, f"step {step}", begin * 1e6, end * 1e6)
        for i in range(len(self.begin)):
            source, target = int(self.sends.rank[i]), int(self.sends.peer[i])
            begin, end = float(self.begin[i]) * 1e6, float(self.end[i]) * 1e6
            about = {"bytes": float(self.nbytes[i]), "step": int(self.sends.step[i])}
            what = human(float(self.nbytes[i]))
            yield chrome_trace.span(source, f"{what} to {target}", begin, end, about)
            yield chrome_trace.tail(source, i, "message", begin)
            yield chrome_trace.head(target, i, "message", end)

    def spans(self) -> dict[tuple[int, int], tuple[float, float]]:
        """The begin and the end of each step of each rank."""
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
        """Write a trace (``.json``) or a picture, depending on the suffix.

        Raises
        ------
        TopologyError
            If there are too many messages for a picture.
        OutputError
            If the file cannot be written or, unless by ``force``, holds anything that
            was not written so.
        ImportError
            For a picture without matplotlib; ``pip install 'collalgo[plot]'``.
        """
        if output_files.ending(path) == "json":
            found = json.dumps(self.chrome())
            output_files.write(path, found, chrome_trace.TRACE, force=force)
        else:
            self.draw(path, force=force)

    def draw(self, path: Path, *, force: bool = False) -> None:
        """Draw the steps of each rank over time, and a line for each message."""
        if len(self.begin) > DRAWN:
            raise TopologyError(
                f"cannot draw {len(self.begin)} messages, at most {DRAWN}; write a "
                "trace (.json) instead"
            )
        figure = new_figure(11, 1.7 + 0.3 * len(self.devices))
        axes = figure.subplots()
        unit, seconds = _unit(self.seconds)
        self._draw_steps(axes, seconds)
        self._draw_messages(axes, seconds)
        axes.set_yticks(range(len(self.devices)), map(literal, self.devices))
        axes.tick_params("y", labelsize=7)
        axes.set_xlim(0, self.seconds / seconds)
        axes.set_ylim(len(self.devices) - 0.5, -0.5)
        axes.set_xlabel(f"time in {unit}")
        axes.set_title(literal(self.title), loc="left", fontsize=10)
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
        plotting.save(figure, path, force=force)

    @property
    def seconds(self) -> float:
        """The end of the last message."""
        return float(self.end.max(initial=0.0)) or 1e-9

    def _draw_steps(self, axes: Any, unit: float) -> None:
        """Draw a bar for each step of a rank, with a line at its end."""
        spans = self.spans()
        for parity, (color, words) in enumerate(STEPS):
            chosen = [(k, v) for k, v in spans.items() if k[1] % 2 == parity]
            axes.barh(
                [rank for (rank, _), _ in chosen],
                [(end - begin) / unit for _, (begin, end) in chosen],
                left=[begin / unit for _, (begin, _) in chosen],
                height=0.8,
                color=color,
                edgecolor="#8a949e",
                linewidth=0.4,
                label=words if chosen else None,
            )

    def _draw_messages(self, axes: Any, unit: float) -> None:
        """Draw a line for each message, from its sender to its receiver."""
        from matplotlib.collections import LineCollection

        host = [device.partition("/")[0] for device in self.devices]
        lines: dict[bool, list[Any]] = {False: [], True: []}
        for i in range(len(self.begin)):
            a, b = int(self.sends.rank[i]), int(self.sends.peer[i])
            way = [(self.begin[i] / unit, a), (self.end[i] / unit, b)]
            lines[host[a] != host[b]].append(way)
        for crosses, (color, words) in MESSAGES.items():
            if lines[crosses]:
                drawn = LineCollection(lines[crosses], colors=color, linewidths=0.7)
                drawn.set_label(words)
                axes.add_collection(drawn)


def _unit(seconds: float) -> tuple[str, float]:
    """The unit of a time, with its seconds."""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return unit, length
    return "us", 1e-6


def timeline(
    algorithm: str | ScheduleFunction,
    topology: Topology,
    nbytes: float,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
    link_model: LinkModel = DEFAULTS,
    model: str = "fluid",
) -> Timeline:
    """Predict the times of all messages; see :func:`collalgo.simulate`."""
    check_machine(topology, "timeline", "topology")
    placement = Placement(topology, order or (), link_model)
    check_root(root, placement.size)
    job = Job.of(algorithm, collective, placement, nbytes, root)
    messages = placement.messages(job.schedule, root)
    times = _fluid_times if model == "fluid" else _round_times
    begin, end, seconds = times(messages, job.whole, placement.routes)
    call = COLLECTIVES[collective].sized(
        f"{collective} by {shortened(job.name)}", nbytes
    )
    title = f"{call} on {topology.name}: {human_time(seconds)} (model: {model})"
    sends = messages.sends
    return Timeline(
        title, placement.devices, sends, sends.share * job.whole, begin, end
    )


def _fluid_times(
    messages: Messages, nbytes: float, routes: Routing
) -> tuple[Reals, Reals, float]:
    """The begin and the end of each message, and the end of the schedule."""
    simulation = FluidSimulation(messages, nbytes, routes)
    seconds = simulation.run()
    return simulation.begin, simulation.end, seconds


def _round_times(
    messages: Messages, nbytes: float, routes: Routing
) -> tuple[Reals, Reals, float]:
    """The same in the model of rounds."""
    found = rounds(messages, routes)
    steps = found.latency + nbytes * found.per_byte
    ends = np.cumsum(steps)
    step = messages.sends.step
    return ends[step] - steps[step], ends[step], float(steps.sum())
