"""The explanation of a selection, as text."""

from collections.abc import Iterator

from collalgo.algorithms.table import is_users
from collalgo.base.units import human_time
from collalgo.cost.lower_bound import compared
from collalgo.selection.selection import AS_CHEAP, Selection


def explanation(of: Selection, most: int | None) -> str:
    """The choice with the prices of others, as text of several lines.

    Parameters
    ----------
    of
        The selection.
    most
        The number of algorithms to list; None for all variants.
    """
    lines = [f"{of.headline}; {of.reason}", of.origin]
    if of.bound is not None and of.ratio is not None:
        lines.append(compared(of.seconds, of.bound, of.nbytes))
        lines += _relayed(of, of.ratio, of.bound.in_rounds(of.nbytes))
    lines += [f"assumed: {rule}" for rule in of.assumptions]
    lines += of.own_obstacles
    return "\n".join([*lines, *_prices(of, most), *_obstacles(of)])


def _relayed(of: Selection, ratio: float, least: float) -> Iterator[str]:
    """The least time in rounds, if that is more than the bound."""
    if of.seconds / least < ratio * (1 - AS_CHEAP):
        yield (
            f"{of.seconds / least:.2f} times the least in rounds of "
            f"{human_time(least)}: ranks relay data a step after they receive it"
        )


def _prices(of: Selection, most: int | None) -> Iterator[str]:
    """The prices of the cheapest candidates, and of all of the user's own."""
    shown = of.distinct if most is None else of.listed(most)
    width = max(len(one.words) for one in shown)
    for one in shown:
        yield f"  {one.words:{width}} {one.seconds * 1e6:12.2f} us{one.mark}"
    hidden = of.count - len(shown)
    if most is not None and hidden:
        yield f"  and {hidden} more"


def _obstacles(of: Selection) -> Iterator[str]:
    """The other candidates that cannot run, by their obstacles."""
    names_of: dict[str, list[str]] = {}
    for one in of.unable:
        if one.obstacle is not None and not is_users(one.row):
            names_of.setdefault(one.obstacle, []).append(one.algorithm)
    for why, names in names_of.items():
        yield f"  {', '.join(names)}: {why}"
