"""The figures of elastic jobs: the measurements, their trials, and their aims."""

from collections.abc import Callable, Sequence
from math import isinf, isnan
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.disturbances.trials import Trials, measured

#: The trials from which on the median and the 99th percentile are told.
ENOUGH = {"p50": 5, "p99": 20}


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

    @property
    def summary(self) -> dict[str, float]:
        """The median, the 99th percentile or the value above it, and the maximum.

        Those that so few trials do not tell are left out.
        """
        found = {
            "p50": median(self.values),
            "p99": float(np.percentile(self.values, 99, method="higher")),
            "most": max(self.values),
        }
        trials = len(self.values)
        return {k: one for k, one in found.items() if trials >= ENOUGH.get(k, 1)}

    @property
    def is_reached(self) -> bool | None:
        """Whether the aims are reached; None without one, or with too few trials."""
        found, aims = self.summary, self.aim._asdict()
        reached = {
            k: found[k] <= aim if k in found else None
            for k, aim in aims.items()
            if aim is not None
        }
        if False in reached.values():
            return False
        return True if reached and None not in reached.values() else None

    def as_row(self) -> dict[str, Any]:
        """The figure as an object of JSON, with null for what did not come in time."""
        return {
            **self._asdict(),
            "values": [_shown(value) for value in self.values],
            "aim": list(self.aim),
            **{name: _shown(value) for name, value in self.summary.items()},
            "trials": len(self.values),
            "reached": self.is_reached,
        }


def _shown(value: float) -> float | None:
    return None if isinf(value) else value


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
    start: Callable[[], Trials],
    count: int,
) -> list[Figure]:
    """Measure the phases of an event in some trials.

    A phase that cannot be told in any trial is left out.
    """
    trials = measured(f"{event} ({where}, {store})", start, count, len(phases))
    found = np.array(trials).reshape(len(trials), len(phases))
    factors = {"ms": 1e3, "us": 1e6, "x": 1.0}
    made = [
        Figure(
            *(event, phase.name, store, where, phase.unit, phase.aim),
            [one * factors[phase.unit] for one in times.tolist() if not isnan(one)],
        )
        for phase, times in zip(phases, found.T, strict=True)
    ]
    return [figure for figure in made if figure.values]
