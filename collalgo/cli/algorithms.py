"""The commands about algorithms: to prove, list, draw and export them."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

from collalgo.algorithms import ALGORITHMS, Algorithm, named
from collalgo.algorithms.parameters import COMMON, OWN
from collalgo.algorithms.verify import Proof, verify
from collalgo.base.console import wide_console
from collalgo.cli.options import (
    collective_option,
    enter_named,
    force_option,
    load_named,
    load_option,
    write_or_refuse,
    writes,
)
from collalgo.errors import CollalgoError
from collalgo.integrations.msccl.msccl import MSCCL, beyond, text_of
from collalgo.integrations.msccl.row import FromFile, program_of
from collalgo.schedule import ScheduleFunction, drawing, trace
from collalgo.schedule.collective import COLLECTIVES

#: Sizes for which ``collalgo verify`` proves an algorithm, unless told otherwise.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)

#: Every root is proved up to this size, beyond it the first, the middle and the last.
EVERY_ROOT = 17

#: How many ranks algorithms are shown for, unless told otherwise.
SHOWN = 8


@click.command("verify")
@click.argument("algorithm", required=False)
@click.option("--all", "everything", is_flag=True, help="All of the table.")
@collective_option
@click.option("-n", "--size", "sizes", type=click.IntRange(1), multiple=True)
def verify_command(
    algorithm: str | None,
    everything: bool,
    collective: str | None,
    sizes: tuple[int, ...],
) -> None:
    """Prove ALGORITHM: a name of the table, FILE.py, FILE.py:FUNCTION or FILE.xml.

    Of a file all functions are proved that @collalgo.algorithm puts into the table. XML
    is that of MSCCL, and is proved for the ranks that it is for. For each size every
    root is proved up to 17 ranks; without --size, several up to 17.
    """
    if everything == (algorithm is not None):
        raise click.UsageError("name an ALGORITHM, or pass --all")
    proved = 0
    for row in _meant(algorithm, collective):
        for size in sizes or _sizes_of(row) or SIZES:
            if isinstance(row, Algorithm) and (obstacle := row.obstacle(size)):
                click.echo(f"{row.collective} {row.name}: {obstacle}")
                continue
            proof = _prove(row, collective, size)
            name = f"{row.name}: " if isinstance(row, Algorithm) else ""
            click.echo(f"{name}{proof}")
            proved += 1
    if not proved:
        raise click.ClickException("nothing was proved")


def _meant(
    algorithm: str | None, collective: str | None
) -> Sequence[Algorithm | ScheduleFunction]:
    """The rows, or the function, that the user means."""
    if algorithm is not None and ".py:" in algorithm:
        return [_function(algorithm)]
    rows = list(ALGORITHMS)
    if algorithm is not None and algorithm.endswith((".py", ".xml")):
        known = set(map(id, rows))
        enter_named(algorithm)
        rows = [row for row in ALGORITHMS if id(row) not in known]
        if not rows:
            raise click.UsageError(
                f"{algorithm} puts no algorithm into the table; decorate a function "
                f"with @collalgo.algorithm(...), or name one: {algorithm}:FUNCTION"
            )
    elif algorithm is not None:
        plain = algorithm.partition("(")[0]
        of_name = {row.collective for row in rows if row.name == plain}
        try:
            rows = [
                named(each, algorithm)
                for each in COLLECTIVES
                if each in of_name or each == collective
            ]
        except CollalgoError as error:
            raise click.ClickException(str(error)) from None
        if not rows:
            names = ", ".join(sorted({row.name for row in ALGORITHMS}))
            raise click.UsageError(
                f"there is no algorithm {algorithm!r}; choose one of {names}"
            )
    return [row for row in rows if collective in (None, row.collective)]


def _sizes_of(meant: Algorithm | ScheduleFunction) -> tuple[int, ...]:
    """How many ranks an algorithm of a file is for; nothing for others."""
    if isinstance(meant, Algorithm) and isinstance(meant.function, FromFile):
        return (meant.function.cells.size,)
    return ()


def _prove(
    meant: Algorithm | ScheduleFunction, collective: str | None, size: int
) -> Proof:
    """The proof for a size, for the first of the roots."""
    schedule: ScheduleFunction
    if isinstance(meant, Algorithm):
        schedule, collective = meant.schedule, meant.collective
    else:
        schedule = meant
    try:
        proof = verify(schedule, size=size, collective=collective)
        if COLLECTIVES[proof.collective].rooted:
            few = {size // 2, size - 1} - {0}
            for root in range(1, size) if size <= EVERY_ROOT else sorted(few):
                verify(schedule, size=size, collective=proof.collective, root=root)
    except (CollalgoError, ValueError) as error:
        name = f"{meant.name}: " if isinstance(meant, Algorithm) else ""
        raise click.ClickException(f"{name}{error}") from None
    return proof


def _function(place: str) -> ScheduleFunction:
    """The function of a user's file."""
    name, _, function = place.rpartition(":")
    schedule = getattr(load_named(name), function, None)
    if not callable(schedule):
        raise click.UsageError(f"{name} has no function {function!r}")
    found: ScheduleFunction = schedule
    return found


@click.group(invoke_without_command=True)
@collective_option
@click.option("-n", "--size", type=click.IntRange(1), default=SHOWN, help="Ranks.")
@load_option
@click.pass_context
def algorithms(context: click.Context, collective: str | None, size: int) -> None:
    """List the table of algorithms with what is proved of each for some ranks."""
    if context.invoked_subcommand is None:
        console = wide_console(150)
        for name in [collective] if collective else COLLECTIVES:
            console.print(_properties(name, size))
        console.print(_ranges())


def _properties(collective: str, size: int) -> Table:
    """What is proved of the algorithms for a collective."""
    table = Table(title=f"{collective}, {size} ranks", title_justify="left")
    for name in ("algorithm", "rounds", "sent", "reduced", "links", "roundings"):
        table.add_column(name, justify="left" if name == "algorithm" else "right")
    table.add_column("order")
    table.add_column("story")
    for row in ALGORITHMS:
        if row.collective != collective:
            continue
        if obstacle := row.obstacle(size):
            table.add_row(row.name, *[""] * 6, obstacle)
            continue
        proof = verify(row.schedule, size=size, collective=collective)
        table.add_row(
            row.name,
            str(proof.rounds),
            str(proof.sent),
            str(proof.reduced),
            str(proof.links),
            str(proof.roundings),
            proof.order if COLLECTIVES[collective].reduces else "",
            row.summary,
        )
    return table


def _ranges() -> Table:
    """The parameters that a name may give, with their values."""
    title = "parameters, as in ring(segments=4); all algorithms have the first three"
    table = Table(title=title, title_justify="left")
    for name in ("parameter", "values", "algorithms"):
        table.add_column(name)
    for name, allowed in (COMMON | OWN).items():
        having = {row.name for row in ALGORITHMS if name in row.known}
        whose = "all" if name in COMMON else ", ".join(sorted(having))
        table.add_row(name, allowed.words, whose)
    return table


@algorithms.command()
@click.argument("algorithm")
@collective_option
@click.option("-n", "--size", type=click.IntRange(1), help="Ranks.")
@click.option("--root", type=click.IntRange(0), default=0, help="The root.")
@click.option("--svg", **writes(drawing.DRAWING), help="Write a drawing.")
@force_option
@load_option
def show(
    algorithm: str,
    collective: str | None,
    size: int | None,
    root: int,
    svg: Path | None,
    force: bool,
) -> None:
    """Draw the schedule of ALGORITHM, its steps against its ranks.

    ALGORITHM is a name of the table, FILE.py, FILE.py:FUNCTION or FILE.xml.
    """
    meant = _meant(algorithm, collective)[0]
    size = size or next(iter(_sizes_of(meant)), SHOWN)
    if root >= size:
        raise click.UsageError(f"root {root} is out of range; there are {size} ranks")
    proof = _prove(meant, collective, size)
    schedule = meant.schedule if isinstance(meant, Algorithm) else meant
    schedules = [trace(schedule, rank, size, root) for rank in range(size)]
    if svg is not None:
        drawn = drawing.svg(schedules, f"{algorithm}: {proof}")
        write_or_refuse(svg, drawn, drawing.DRAWING, force=force)
        return
    console = wide_console(24 * (size + 1))
    console.print(f"{algorithm}: {proof}", highlight=False)
    console.print(drawing.table(schedules))


@algorithms.command()
@click.argument("algorithm")
@collective_option
@click.option("-n", "--size", type=click.IntRange(1), default=SHOWN, help="Ranks.")
@click.option(
    "--protocol",
    type=click.Choice(["Simple", "LL", "LL128"]),
    default="Simple",
    help="What NCCL is to use.",
)
@click.option("-o", "--output", **writes(MSCCL), default="-", help="The file to write.")
@force_option
@load_option
def export(
    algorithm: str,
    collective: str | None,
    size: int,
    protocol: str,
    output: Path,
    force: bool,
) -> None:
    """Write ALGORITHM as the XML of MSCCL, for so many GPUs.

    ALGORITHM is a name of the table, or a FILE.py with one in it.
    """
    meant = _meant(algorithm, collective)
    rows = [row for row in meant if isinstance(row, Algorithm)]
    if len(rows) != 1:
        names = ", ".join(f"{row.collective} {row.name}" for row in rows)
        raise click.UsageError(f"say which, by -c: {names or 'a row of the table'}")
    _prove(rows[0], collective, size)
    try:
        program = program_of(rows[0], size)
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None
    for excess in beyond(program):
        click.echo(f"warning: {excess}", err=True)
    write_or_refuse(output, text_of(program, protocol), MSCCL, force=force)
