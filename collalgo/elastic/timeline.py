"""The members of a job over time, from its events, as a picture."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from collalgo.base import plotting
from collalgo.base.input_files import read_text
from collalgo.elastic.history import PastEpoch
from collalgo.errors import CollalgoError

#: Bytes of a file of events, and members in a picture, at most.
LARGEST, DRAWN = 64 << 20, 500

#: The colours of epochs, in turn; those after a failure end with a line in red.
COLOURS, FAILURE = ("#2166ac", "#92c5de"), "#b2182b"

#: The width in seconds of an epoch that has just begun.
LAST_SECONDS = 0.5


class EventsError(CollalgoError):
    """A file holds no events of a job."""


def read_events(path: Path) -> list[PastEpoch]:
    """The epochs in a file of events, a line of JSON each.

    Raises
    ------
    EventsError
        If it has no epochs, or a malformed line.
    """
    try:
        lines = read_text(path, LARGEST).splitlines()
    except (OSError, ValueError) as error:
        raise EventsError(f"{path} cannot be read: {error}") from None
    found: dict[int, PastEpoch] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and (past := _epoch(line, f"{path}, line {number}")):
            found[past.epoch] = past
    if not found:
        raise EventsError(
            f"{path} has no epochs; write it by: collalgo elastic events --follow"
        )
    return [found[epoch] for epoch in sorted(found)]


def _epoch(line: str, where: str) -> PastEpoch | None:
    """The epoch of a line; None if it is another event."""
    try:
        match json.loads(line):
            case {
                "event": "epoch",
                "epoch": int(epoch),
                "members": [*members],
                "why": str(why),
                "time": str(at),
            } if all(isinstance(each, str) for each in members):
                seconds = datetime.fromisoformat(at).timestamp()
                return PastEpoch(epoch, tuple(members), why, int(seconds * 1e3))
            case {"event": str(name)} if name != "epoch":
                return None
    except (ValueError, OverflowError, RecursionError):
        pass
    raise EventsError(f"{where}: {line[:60]!r} is not an event of collalgo elastic")


def draw(epochs: Sequence[PastEpoch], path: Path, *, force: bool = False) -> None:
    """Draw a bar for each member and epoch, and a line where a failure ended one.

    Raises
    ------
    EventsError
        If there are too many members.
    ImportError, OutputError, ValueError
        As :func:`~collalgo.base.plotting.save`.
    """
    names = list(dict.fromkeys(name for each in epochs for name in each.members))
    if len(names) > DRAWN:
        raise EventsError(f"cannot draw {len(names)} members, at most {DRAWN}")
    figure = plotting.new_figure(11, 1.5 + 0.3 * len(names))
    axes = figure.subplots()
    first = epochs[0].milliseconds
    begins = [(each.milliseconds - first) / 1e3 for each in epochs]
    ends = [*begins[1:], begins[-1] + LAST_SECONDS]
    for past, begin, end in zip(epochs, begins, ends, strict=True):
        _draw_epoch(axes, past, (begin, max(end, begin)), names)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the first epoch shown; red: a member was lost")
    axes.set_title("members of each epoch", loc="left", fontsize=10)
    plotting.save(figure, path, force=force)


def _draw_epoch(
    axes: Any, past: PastEpoch, span: tuple[float, float], names: Sequence[str]
) -> None:
    """Draw the members of an epoch."""
    begin, end = span
    rows = [names.index(name) for name in past.members]
    colour = COLOURS[past.epoch % len(COLOURS)]
    axes.barh(rows, [end - begin] * len(rows), left=begin, height=0.8, color=colour)
    if past.is_failure:
        axes.axvline(begin, color=FAILURE, linewidth=0.8)
