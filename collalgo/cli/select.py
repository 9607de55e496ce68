"""The command ``collalgo select``."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

from collalgo.base.console import wide_console
from collalgo.base.plotting import PICTURE
from collalgo.base.units import human, human_time, sizes_between
from collalgo.cli.cost import figures_option, load_machine
from collalgo.cli.options import force_option, load_option, writes
from collalgo.cost.link_model import LinkModel
from collalgo.errors import AlgorithmNotApplicable, CollalgoError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.choice import select
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS
from collalgo.selection.selection import Selection

WIDTH = 150


@click.command("select")
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("words", nargs=-1, metavar="[SIZE] [NAME=VALUE]...")
@click.option("--size", "range_", help="Bytes, as 64K, or a range, as 1K..1G.")
@click.option("-n", "ranks", type=click.IntRange(1), help="Ranks on this machine.")
@click.option("--topology", help="Where the ranks are to be, as for collalgo topo.")
@click.option("--hosts", type=click.IntRange(1), help="So many of the machine.")
@click.option("--nics", type=click.IntRange(0), help="NICs that each host keeps.")
@click.option("--reproducible", is_flag=True, help="In the order of the ranks only.")
@click.option("--algorithm", help="One to be taken, whatever its price.")
@click.option("--policy", help=f"Who decides: {', '.join(PEERS)}, or a file of rules.")
@click.option("--peers", is_flag=True, help="What the peers would run, and lose.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--plot", "picture", **writes(PICTURE), help="Draw times.")
@force_option
@figures_option
@load_option
def select_command(
    collective: str,
    words: tuple[str, ...],
    range_: str | None,
    ranks: int | None,
    topology: str | None,
    hosts: int | None,
    nics: int | None,
    reproducible: bool,
    algorithm: str | None,
    policy: str | None,
    peers: bool,
    as_json: bool,
    picture: Path | None,
    force: bool,
    figures: LinkModel,
) -> None:
    """Say which algorithm to use, and why: for one size with the prices of all.

    On this machine with so many ranks (-n), or on a topology with its parameters, as
    --topology dgx1v --hosts 4. For a range of sizes, which is the default, print a
    table of the choices.
    """
    if (ranks is None) == (topology is None):
        raise click.UsageError("give the number of ranks by -n, or a --topology")
    if words and "=" not in words[0]:
        range_, words = words[0], words[1:]
    given = [("hosts", hosts), ("nics", nics)]
    words += tuple(f"{name}={value}" for name, value in given if value is not None)
    sizes = sizes_between(range_ or "8..1G")
    try:
        where = (
            TopologyPricer(load_machine(topology, words), figures) if topology else None
        )
        chosen = [
            select(
                collective,
                nbytes,
                size=ranks,
                topology=where,
                reproducible=reproducible,
                algorithm=algorithm,
                policy=policy,
            )
            for nbytes in sizes
        ]
        others = _others(chosen, where, ranks) if peers else {}
        if picture:
            from collalgo.selection.plot import plot

            plot(chosen, others, picture, force=force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        found = [one.as_dict() for one in chosen]
        click.echo(json.dumps(found if len(found) > 1 else found[0], indent=1))
    elif len(chosen) == 1 and not peers:
        click.echo(chosen[0].explain())
    else:
        first = chosen[0]
        what = f"{first.collective} on {first.size} ranks; prices by {first.basis}"
        click.echo(what)
        console = wide_console(WIDTH)
        console.print(_table(chosen, others))


def _others(
    chosen: Sequence[Selection], where: TopologyPricer | None, ranks: int | None
) -> dict[str, list[Selection | None]]:
    """What each peer would run for the same sizes; None where it does not say."""
    names = [name for name in PEERS if where is not None or name != "nccl"]
    found: dict[str, list[Selection | None]] = {}
    for name in names:
        found[name] = []
        for one in chosen:
            try:
                other = select(
                    one.collective, one.nbytes, size=ranks, topology=where, policy=name
                )
            except AlgorithmNotApplicable:
                other = None
            says = other is not None and other.decider != "price"
            found[name].append(other if says else None)
    return found


def _table(
    chosen: Sequence[Selection], others: dict[str, list[Selection | None]]
) -> Table:
    """A row for each size: the choice, its time, the bound, and the peers."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("size", justify="right")
    table.add_column("algorithm")
    table.add_column("time", justify="right")
    bounded = any(one.ratio for one in chosen)
    if bounded:
        table.add_column("x bound", justify="right")
    for name in others:
        table.add_column(name)
    for i, one in enumerate(chosen):
        cells = [human(one.nbytes), one.choice.words, human_time(one.seconds)]
        if bounded:
            cells.append(f"{one.ratio:.2f}" if one.ratio else "")
        cells += [_lost(row[i], one) for row in others.values()]
        table.add_row(*cells)
    return table


def _lost(other: Selection | None, chosen: Selection) -> str:
    """What a peer would run, and how many times as long."""
    if other is None:
        return "-"
    times = other.seconds / chosen.seconds if chosen.seconds else 1.0
    return f"{other.row.base_name} x{times:.2f}"
