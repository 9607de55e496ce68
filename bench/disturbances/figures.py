"""The figures of elastic jobs: the measurements, their trials, and their aims."""

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

#: The seconds, or the ratios, of the phases of an event, and those of its trials.
Times = Sequence[float]
Trials = Generator[Times, None, None]


class Aim(NamedTuple):
    """The largest median and the largest 99th percentile to be reached, if any."""

    p50: float | None = None
    p99: float | None = None


class Figure(NamedTuple):
    """A phase of an event, measured in some trials.

    Attributes
    ----------
    event, phase : str
        The event, and until when the time counts.
    store, where : str
        The store of the rendezvous, and the number of members and hosts.
    unit : str
        ``ms``, ``us`` or ``x`` for a ratio.
    aim : Aim
        The values to be reached.
    values : list of float
        The value of each trial.
    """

    event: str
    phase: str
    store: str
    where: str
    unit: str
    aim: Aim
    values: list[float]

    def percentile(self, percent: float) -> float:
        """A percentile of the values."""
        return float(np.percentile(self.values, percent))

    @property
    def is_reached(self) -> bool | None:
        """Whether the aims are reached; None without one."""
        pairs = [
            (self.percentile(percent), aim)
            for percent, aim in zip((50, 99), self.aim, strict=True)
            if aim is not None
        ]
        return all(found <= aim for found, aim in pairs) if pairs else None

    def as_row(self) -> dict[str, Any]:
        """The figure as an object of JSON."""
        found = {name: self.percentile(n) for name, n in (("p50", 50), ("p99", 99))}
        return {
            **self._asdict(),
            "aim": list(self.aim),
            **found,
            "most": max(self.values),
            "trials": len(self.values),
            "reached": self.is_reached,
        }


class Phase(NamedTuple):
    """A phase of an event, and its aim."""

    name: str
    aim: Aim = Aim()
    unit: str = "ms"


def figures(
    event: str,
    phases: Sequence[Phase],
    store: str,
    where: str,
    trials: Trials,
    count: int,
) -> list[Figure]:
    """Measure the phases of an event in some trials, which are then closed."""
    with closing(trials):
        found = np.array(list(islice(trials, count)))
    factors = {"ms": 1e3, "us": 1e6, "x": 1.0}
    return [
        Figure(
            *(event, phase.name, store, where, phase.unit, phase.aim),
            (times * factors[phase.unit]).tolist(),
        )
        for phase, times in zip(phases, found.T, strict=True)
    ]
