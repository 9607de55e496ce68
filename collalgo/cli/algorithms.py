"""The command ``collalgo algorithms``: list and draw algorithms."""

from pathlib import Path

import click
from rich.table import Table

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm
from collalgo.algorithms.parameters import COMMON, OWN
from collalgo.algorithms.verify import verify
from collalgo.base.console import wide_console
from collalgo.base.units import counted
from collalgo.cli import completing
from collalgo.cli.algorithm_argument import (
    algorithms_named,
    prove_roots,
    sizes_of,
    the_only,
)
from collalgo.cli.export import export
from collalgo.cli.machine import check_has_root, root_option
from collalgo.cli.on_topology import Ranks, ranks_options
from collalgo.cli.options import (
    collective_option,
    force_option,
    load_option,
    write_or_refuse,
    writes,
)
from collalgo.cli.words import epilog
from collalgo.errors import CollalgoError
from collalgo.schedule import drawing, picture, trace
from collalgo.schedule.collective import COLLECTIVES

#: The default number of ranks.
SHOWN = 8

#: The most ranks of which all algorithms are proved, and of which one is drawn.
MOST_LISTED, MOST_DRAWN = 1024, 256


@click.group(
    invoke_without_command=True,
    epilog=epilog(
        "rounds", "sent", "reduced", "links", "roundings", "order", "n bytes"
    ),
)
@collective_option
@click.option(
    "-n",
    "--ranks",
    "size",
    type=click.IntRange(1, MOST_LISTED),
    default=SHOWN,
    help="Number of ranks.",
)
@load_option
@click.pass_context
def algorithms(context: click.Context, collective: str | None, size: int) -> None:
    """List the algorithms with their proved properties."""
    if context.invoked_subcommand is None:
        console = wide_console()
        for name in [collective] if collective else COLLECTIVES:
            console.print(_properties(name, size))
        console.print(_ranges())


def _properties(collective: str, size: int) -> Table:
    """The proved properties of the algorithms of a collective."""
    table = Table(title=f"{collective}, {counted(size, 'rank')}", title_justify="left")
    for name in ("algorithm", "rounds", "sent", "reduced", "links", "roundings"):
        table.add_column(name, justify="left" if name == "algorithm" else "right")
    table.add_column("order")
    table.add_column("summary")
    for row in ALGORITHMS:
        if row.collective == collective:
            table.add_row(*_cells(row, size))
    return table


def _cells(row: Algorithm, size: int) -> list[str]:
    """The proved properties of an algorithm, or why it cannot run on ``size`` ranks."""
    if obstacle := row.obstacle(size):
        return [row.name, *[""] * 6, obstacle]
    try:
        proof = verify(row.schedule, size=size, collective=row.collective)
    except (CollalgoError, ValueError) as error:
        return [row.name, *[""] * 6, str(error)]
    return [
        row.name,
        str(proof.rounds),
        str(proof.sent),
        str(proof.reduced),
        str(proof.links),
        str(proof.roundings),
        proof.order if COLLECTIVES[row.collective].reduces else "",
        row.summary,
    ]


def _ranges() -> Table:
    """The parameters of algorithms, with their allowed values."""
    title = "parameters, as in ring(segments=4); all algorithms have the first three"
    table = Table(title=title, title_justify="left")
    for name in ("parameter", "values", "algorithms"):
        table.add_column(name)
    for name, allowed in (COMMON | OWN).items():
        takers = {row.name for row in ALGORITHMS if name in row.known}
        whose = "all" if name in COMMON else ", ".join(sorted(takers))
        table.add_row(name, allowed.words, whose)
    return table


@algorithms.command(epilog=epilog("chunk 2 of 4"))
@click.argument("algorithm", shell_complete=completing.algorithms)
@collective_option
@click.option(
    "-n",
    "--ranks",
    "size",
    type=click.IntRange(1, MOST_DRAWN),
    show_default=f"{SHOWN}, or that of the file or topology",
    help="Number of ranks.",
)
@root_option
@click.option("--svg", **writes(picture.DRAWING), help="SVG file to write.")
@force_option
@ranks_options
@load_option
def show(
    algorithm: str,
    collective: str | None,
    size: int | None,
    root: int,
    svg: Path | None,
    force: bool,
    ranks: Ranks,
) -> None:
    """Draw the schedule of ALGORITHM as a table of steps by ranks.

    ALGORITHM is the name of an algorithm, FILE.py, FILE.py:FUNCTION, FILE.xml
    or FILE.json; or synthesized, for the ranks of --topology.
    """
    meant = the_only(algorithms_named(algorithm, collective, ranks))
    if isinstance(meant, Algorithm):
        check_has_root(meant.collective, root)
    size = size or next(iter(sizes_of(meant)), SHOWN)
    if root >= size:
        raise click.UsageError(f"root {root} is out of range; there are {size} ranks")
    proof = prove_roots(meant, collective, size, root)
    schedule = meant.schedule if isinstance(meant, Algorithm) else meant
    schedules = [trace(schedule, rank, size, root) for rank in range(size)]
    title = f"{meant.name if isinstance(meant, Algorithm) else algorithm}: {proof}"
    if svg is not None:
        drawn = picture.svg(schedules, title)
        write_or_refuse(svg, drawn, picture.DRAWING, force=force)
        return
    console = wide_console()
    console.print(title, highlight=False)
    console.print(drawing.table(schedules))


algorithms.add_command(export)
