"""The command ``collalgo trace price``."""

from pathlib import Path

import click
from rich.table import Table

from collalgo.base.console import patience, wide_console
from collalgo.base.cpu_list import cores_of, is_list
from collalgo.base.units import counted, human, human_time
from collalgo.base.wrapping import wrapped
from collalgo.cli.loading import load
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    figures_option,
    machine_arguments,
)
from collalgo.cli.words import epilog
from collalgo.cost.link_model import LinkModel
from collalgo.errors import CollalgoError
from collalgo.integrations.chakra import Calls, PricedCall, priced, read_calls
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.faults import Faults


def _parse_groups(
    _context: object, _parameter: object, words: tuple[str, ...]
) -> dict[str, list[int]]:
    """The ranks of groups, given as NAME=0,4-7."""
    found: dict[str, list[int]] = {}
    for word in words:
        name, _, ranks = word.partition("=")
        if not is_list(ranks):
            raise click.BadParameter(f"{word!r} must have the form NAME=0,4-7")
        if name in found:
            raise click.BadParameter(f"the group {name} is given twice; give it once")
        parts = [cores_of(part) for part in ranks.split(",")]
        found[name] = sorted(rank for part in parts for rank in part)
    return found


def _check_groups(groups: dict[str, list[int]], calls: Calls) -> None:
    """Refuse a group that no call of the trace is in."""
    known = sorted({call.group for call in calls.calls if call.group})
    for name in groups:
        if name not in known:
            raise click.ClickException(
                f"no call is in the group {name!r} of --group; the groups of the calls "
                f"are {', '.join(known) or 'not named'}"
            )


@click.command("price", epilog=epilog("time", "x bound", "bound"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@machine_arguments
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME=RANKS",
    callback=_parse_groups,
    help="Ranks of a process group, as NAME=0,4-7; repeatable. Groups not listed have "
    "all ranks.",
)
@figures_option
@assume_option
@faults_options
def price_command(
    file: Path,
    what: str,
    parameters: tuple[str, ...],
    groups: dict[str, list[int]],
    figures: LinkModel,
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Price the calls in FILE, a Chakra execution trace of one rank, on a topology.

    WHAT and its parameters are those of collalgo topo. Each call is priced alone, with
    the algorithm that collalgo select chooses.
    """
    topology = load(what, parameters, faults)
    try:
        calls = read_calls(file)
        if not (calls.calls or calls.messages or calls.unknown):
            raise click.ClickException(
                f"{file} has no calls; name a Chakra execution trace of one rank, with "
                "nodes that communicate"
            )
        _check_groups(groups, calls)
        with patience("pricing"):
            found = priced(calls, topology, groups, assuming(figures, assume))
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    wide_console().print(_table(found))
    click.echo(wrapped(_rest(calls, found)))


def _table(found: list[PricedCall]) -> Table:
    title = "predicted time of each call alone; less is better"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in ("collective", "group"):
        table.add_column(name)
    for name in ("ranks", "bytes", "times"):
        table.add_column(name, justify="right")
    table.add_column("algorithm")
    for name in ("time", "x bound", "all"):
        table.add_column(name, justify="right")
    for each in found:
        choice = each.selection
        ratio = choice.ratio if choice else None
        table.add_row(
            *(each.call.collective, each.call.group or "all"),
            *(str(each.size), _bytes(each), str(each.times)),
            choice.algorithm if choice else "",
            human_time(choice.seconds) if choice else "0 s",
            f"{ratio:.2f}" if ratio else "",
            human_time(each.seconds),
        )
    return table


def _bytes(each: PricedCall) -> str:
    """The bytes of a call, if it carries data."""
    return human(each.nbytes) if COLLECTIVES[each.call.collective].carries_data else ""


def _rest(calls: Calls, found: list[PricedCall]) -> str:
    """The sum, and what is left out of it."""
    total = human_time(sum(each.seconds for each in found))
    return (
        f"{counted(calls.calls.total(), 'call')}, {total} one after the other; not "
        f"counted: {counted(calls.messages, 'message')}, and "
        f"{counted(calls.unknown, 'collective')} without type or bytes"
    )
