"""The command ``collalgo algorithms export``."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.verify import MOST_RANKS
from collalgo.base.output_files import Format, ending
from collalgo.cli import completing
from collalgo.cli.algorithm_argument import algorithms_named, prove_roots, sizes_of
from collalgo.cli.machine import check_has_root, root_option
from collalgo.cli.on_topology import Ranks, ranks_options
from collalgo.cli.options import (
    collective_option,
    force_option,
    load_option,
    parse_size,
    write_or_refuse,
    writes,
)
from collalgo.cost.link_model import LinkModel
from collalgo.errors import CollalgoError
from collalgo.integrations.goal import GOAL, goal_of
from collalgo.integrations.msccl.msccl import MSCCL, beyond, text_of
from collalgo.integrations.msccl.row import program_of
from collalgo.integrations.mscclpp import document
from collalgo.integrations.mscclpp.row import plan_of

#: The default number of ranks.
RANKS = 8


class Wanted(NamedTuple):
    """What to write of an algorithm."""

    size: int
    nbytes: int
    root: int
    protocol: str
    channel: str
    link_model: LinkModel


def _msccl(row: Algorithm, wanted: Wanted) -> str:
    program = program_of(row, wanted.size)
    _warn(beyond(program))
    return text_of(program, wanted.protocol)


def _mscclpp(row: Algorithm, wanted: Wanted) -> str:
    plan = plan_of(row, wanted.size, wanted.channel)
    _warn(document.beyond(plan))
    return document.text_of(plan)


def _warn(excesses: list[str]) -> None:
    for excess in excesses:
        click.echo(f"warning: {excess}", err=True)


def _goal(row: Algorithm, wanted: Wanted) -> str:
    size, nbytes, root = wanted[:3]
    reduction = wanted.link_model.reduction
    return goal_of(row.schedule, row.collective, size, nbytes, root, reduction)


class Writer(NamedTuple):
    """A format: its files, and what writes one."""

    kind: Format
    write: Callable[[Algorithm, Wanted], str]


FORMATS = {
    "msccl": Writer(MSCCL, _msccl),
    "mscclpp": Writer(document.PLAN, _mscclpp),
    "goal": Writer(GOAL, _goal),
}

#: The kinds of files by the names of the formats.
KINDS = {name: writer.kind for name, writer in FORMATS.items()}


@click.command("export")
@click.argument("algorithm", shell_complete=completing.algorithms)
@collective_option
@click.option(
    "-n",
    "--ranks",
    "size",
    type=click.IntRange(1, MOST_RANKS),
    show_default=f"{RANKS}, or that of the file or topology",
    help="Number of ranks.",
)
@click.option(
    "--format",
    "name",
    type=click.Choice(list(FORMATS)),
    is_eager=True,
    show_default="by the suffix of --output, else msccl",
    help="Format: MSCCL XML (.xml), MSCCL++ execution plan (.json), or GOAL of "
    "LogGOPSim (.goal).",
)
@click.option(
    "--protocol",
    type=click.Choice(["Simple", "LL", "LL128"]),
    default="Simple",
    help="NCCL protocol; for msccl only.",
)
@click.option(
    "--channel",
    type=click.Choice(["memory", "port"]),
    default="memory",
    help="Channel type; use port if ranks are on several hosts; for mscclpp only.",
)
@click.option(
    "--bytes",
    "nbytes",
    callback=parse_size,
    default="1M",
    help="Buffer size of each rank in bytes; for goal only.",
)
@root_option
@click.option(
    "-o",
    "--output",
    **writes(MSCCL, by_option=("name", KINDS), json=document.PLAN, goal=GOAL),
    default="-",
    help="File to write; - is standard output.",
)
@force_option
@ranks_options
@load_option
def export(
    algorithm: str,
    collective: str | None,
    size: int | None,
    name: str | None,
    protocol: str,
    channel: str,
    nbytes: int,
    root: int,
    output: Path,
    force: bool,
    ranks: Ranks,
) -> None:
    """Write ALGORITHM for --ranks ranks in a format of another tool.

    ALGORITHM is the name of an algorithm, or a file that defines one; or synthesized,
    for the ranks of --topology. --root and the reduction rate of --figures apply to
    GOAL only. The schedule is proved before it is written.
    """
    row = _row(algorithm, collective, ranks)
    size = size or next(iter(sizes_of(row)), RANKS)
    check_has_root(row.collective, root)
    if root >= size:
        raise click.UsageError(f"root {root} is out of range; there are {size} ranks")
    prove_roots(row, collective, size, root)
    by_suffix = (key for key, kind in KINDS.items() if ending(output) in kind.endings)
    writer = FORMATS[name or next(by_suffix, "msccl")]
    wanted = Wanted(size, nbytes, root, protocol, channel, ranks.link_model)
    try:
        text = writer.write(row, wanted)
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    write_or_refuse(output, text, writer.kind, force=force)


def _row(algorithm: str, collective: str | None, ranks: Ranks) -> Algorithm:
    """The one algorithm that a word and a collective name."""
    meant = algorithms_named(algorithm, collective, ranks)
    rows = [row for row in meant if isinstance(row, Algorithm)]
    if len(rows) != 1:
        names = ", ".join(f"{row.collective} {row.name}" for row in rows)
        raise click.UsageError(
            f"choose one algorithm, by -c: {names or 'the name of an algorithm'}"
        )
    return rows[0]
