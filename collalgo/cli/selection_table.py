"""The table of several selections, their JSON and their plot."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import click
from rich.table import Table

from collalgo.base.console import patience, wide_console
from collalgo.base.units import counted, human, human_time
from collalgo.base.wrapping import wrapped
from collalgo.cost.lower_bound import AS_LOW
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule.collective import collective_of
from collalgo.selection.decide import PRICE
from collalgo.selection.losses import Loss
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS
from collalgo.selection.selection import Selection
from collalgo.topology.assumed import marked

#: The columns of the losses by faults.
LOSSES = ("x whole", "its schedule")

#: For each peer its choices by size.
Others: TypeAlias = dict[str, list[Selection | None]]


def show(chosen: Sequence[Selection], others: Others, losses: Sequence[Loss]) -> None:
    """Print a table of several selections."""
    first = chosen[0]
    ranks = counted(first.size, "rank")
    lines = [f"{first.collective} on {ranks}; prices from {first.basis}"]
    rules = dict.fromkeys(rule for one in chosen for rule in one.assumptions)
    lines += [f"assumed: {rule}" for rule in rules]
    click.echo(wrapped("\n".join([*lines, *first.own_obstacles])))
    wide_console().print(_table(chosen, others, losses))
    for line in _cheaper(losses):
        click.echo(wrapped(line))


def _cheaper(losses: Sequence[Loss]) -> list[str]:
    """The reasons why schedules of the whole machine are cheaper than the choices."""
    sizes: dict[str, list[str]] = {}
    for loss in losses:
        if why := loss.why_no_candidate:
            sizes.setdefault(why, []).append(human(loss.chosen.nbytes))
    return [
        f"{LOSSES[1]} of {', '.join(some)} is cheaper than the choice: it {why}"
        for why, some in sizes.items()
    ]


def _table(
    chosen: Sequence[Selection], others: Others, losses: Sequence[Loss]
) -> Table:
    """A row for each size: the choice, its time, the bound, the losses, the peers."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("size" if _is_sized(chosen[0]) else "", justify="right")
    table.add_column("algorithm")
    table.add_column("time", justify="right")
    bounded = any(one.ratio for one in chosen)
    if bounded:
        table.add_column("x bound", justify="right")
    for name in (*(LOSSES if losses else ()), *others):
        table.add_column(name)
    for i, one in enumerate(chosen):
        time = human_time(one.seconds) + one.choice.mark
        cells = [human(one.nbytes) if _is_sized(one) else "", one.choice.words, time]
        if bounded:
            cells.append(_times_bound(one))
        cells += _loss_cells(losses[i]) if losses else []
        cells += [_lost(row[i], one) for row in others.values()]
        table.add_row(*cells)
    return table


def _is_sized(one: Selection) -> bool:
    """Whether the call has a buffer."""
    return collective_of(one.collective).carries_data


def _times_bound(one: Selection) -> str:
    """The time of a choice as a multiple of its bound."""
    if one.bound is None or not one.ratio:
        return ""
    wrong = " (below the bound)" if one.ratio < 1 - AS_LOW else ""
    return f"{one.ratio:.2f}{marked(one.bound.rests_on(one.nbytes))}{wrong}"


def _loss_cells(loss: Loss) -> list[str]:
    """The time over that of the whole machine, and that of its schedule."""
    old = loss.old_seconds
    return [f"{loss.times:.2f}", "cannot run" if old is None else human_time(old)]


def _lost(other: Selection | None, chosen: Selection) -> str:
    """The algorithm of a peer, and its time over that of the choice."""
    if other is None:
        return "-"
    times = other.seconds / chosen.seconds if chosen.seconds else 1.0
    return f"{other.row.base_name} x{times:.2f}"


def of_peers(
    decide: Callable[..., Selection],
    sizes: Sequence[int | None],
    pricer: TopologyPricer | None,
) -> Others:
    """The choices of each peer for the same sizes; None where it has none."""
    names = [name for name in PEERS if pricer is not None or name != "nccl"]
    with patience("pricing the choices of others"):
        return {name: [_other(decide, one, name) for one in sizes] for name in names}


def _other(
    decide: Callable[..., Selection], nbytes: int | None, peer: str
) -> Selection | None:
    try:
        other = decide(nbytes, policy=peer)
    except AlgorithmNotApplicable:
        return None
    return other if other.decider != PRICE else None


def json_of(chosen: Sequence[Selection], others: Others, losses: Sequence[Loss]) -> str:
    """A selection as a mapping, several as a list of them, with all candidates."""
    found = [one.as_dict() for one in chosen]
    for i, one in enumerate(found if others else ()):
        one["peers"] = {
            name: None if (other := row[i]) is None else other.as_dict()
            for name, row in others.items()
        }
    for one, loss in zip(found, losses, strict=False):
        one["whole"] = loss.as_dict()
    return json.dumps(found if len(found) > 1 else found[0], indent=1)


def draw(
    chosen: Sequence[Selection], others: Others, picture: Path | None, force: bool
) -> None:
    """Plot the times to a file, if one is given."""
    if picture is not None:
        from collalgo.selection.plot import plot  # which needs matplotlib

        plot(chosen, others, picture, force=force)
