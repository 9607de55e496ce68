"""Draw the prices of algorithms over size."""

from collections.abc import Sequence
from math import nan
from pathlib import Path

from collalgo.algorithms.table import shortened
from collalgo.base import plotting
from collalgo.base.plotting import new_figure
from collalgo.selection.selection import Selection

#: The number of algorithms drawn besides the choice.
DRAWN = 12


def plot(
    chosen: Sequence[Selection],
    others: dict[str, list[Selection | None]],
    path: Path,
    *,
    force: bool = False,
) -> None:
    """Write a picture of the choice, the other algorithms and the bound.

    Parameters
    ----------
    chosen
        A choice for each size.
    others
        The choices of each peer.
    path
        The file; its ending gives the format.
    force
        Write over a file that collalgo has not written.

    Raises
    ------
    ImportError
        Without matplotlib; it comes with ``pip install 'collalgo[plot]'``.
    """
    figure = new_figure(9, 6)
    axes = figure.subplots()
    sizes = [one.nbytes for one in chosen]
    for name in _worth_drawing(chosen):
        times = [_seconds(one, name) * 1e6 for one in chosen]
        axes.loglog(sizes, times, linewidth=0.8, label=shortened(name))
    for name, row in others.items():
        times = [nan if x is None else x.seconds * 1e6 for x in row]
        axes.loglog(sizes, times, linestyle=":", label=f"as {name}")
    best = [one.seconds * 1e6 for one in chosen]
    axes.loglog(sizes, best, color="black", linewidth=2.5, label="the choice")
    if all(one.bound_seconds for one in chosen):
        bounds = [(one.bound_seconds or 0.0) * 1e6 for one in chosen]
        axes.loglog(sizes, bounds, color="black", linestyle="--", label="bound")
    axes.set_title(f"{chosen[0].collective} on {chosen[0].size} ranks", loc="left")
    axes.set_xlabel("bytes")
    axes.set_ylabel("predicted time in us")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small")
    plotting.save(figure, path, force=force)


def _worth_drawing(chosen: Sequence[Selection]) -> list[str]:
    """The algorithms that are the choice for some size, then the nearest to one."""
    nearest: dict[str, float] = {}
    for one in chosen:
        for candidate in one.able:
            ratio = candidate.seconds / one.seconds if one.seconds else 1.0
            known = nearest.get(candidate.algorithm, float("inf"))
            nearest[candidate.algorithm] = min(known, ratio)
    return sorted(nearest, key=nearest.__getitem__)[:DRAWN]


def _seconds(one: Selection, name: str) -> float:
    """The price of an algorithm in its best order; NaN if it cannot run."""
    return min((c.seconds for c in one.able if c.algorithm == name), default=nan)
