"""The command ``collalgo trace``."""

import webbrowser
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table

from collalgo.base import page
from collalgo.base.console import patience, wide_console
from collalgo.base.output_files import is_standard_output
from collalgo.base.units import counted, human_time
from collalgo.base.wrapping import wrapped
from collalgo.cli import unnamed_job
from collalgo.cli.options import force_option, writes
from collalgo.cli.price_calls import price_command
from collalgo.cli.words import epilog
from collalgo.comm.tracing.analysis import DumpError, Finding, analyze
from collalgo.comm.tracing.dump import DUMP_FILES
from collalgo.comm.tracing.summary import Row, SlowCall
from collalgo.comm.tracing.trace_file import TraceError
from collalgo.comm.tracing.view import Trace
from collalgo.errors import OutputError
from collalgo.launch.rank_processes import RankProcess, dump_ranks, rank_processes

#: The exit code of an inconclusive analysis, since dumps are missing.
INCONCLUSIVE = 2

#: The columns of what calls should take.
FIGURES = ("price", "bound")

#: The most slow calls that are listed.
MOST_SLOW = 10


@click.group("trace")
def main() -> None:
    """Inspect the calls of the ranks of a job."""


main.add_command(price_command)


@main.command("dump")
@click.argument("job", type=click.IntRange(1), required=False)
def dump_command(job: int | None) -> None:
    """Make the ranks of a running JOB on this host dump their calls.

    JOB is the process id of the launcher (collalgo run, mpiexec, torchrun) or of a
    rank. It may be omitted if a single job was started in this folder. The exit code is
    1 if a rank does not dump its calls.

    Each rank gets SIGUSR1, which Python code does not notice; a sleep or another wait
    of C code in a rank may return early. Programs in C under --preload dump nothing
    and get no signal.
    """
    files = dump_ranks(_ranks_of(job))
    for rank, file in files.items():
        click.echo(wrapped(_answer(rank, file)))
    written = {file for file in files.values() if file}
    for folder in sorted({file.parent for file in written}):
        if older := len({*folder.glob(DUMP_FILES)} - written):
            click.echo(wrapped(_warning(folder, older)))
        click.echo(f"next: collalgo trace analyze {folder}")
    raise SystemExit(int(None in files.values()))


def _warning(folder: Path, older: int) -> str:
    """That the analysis of a folder reads dumps that were not written now."""
    return (
        f"{folder} also has {counted(older, 'older dump')}, which the analysis reads, "
        "too; delete those of former jobs"
    )


def _ranks_of(job: int | None) -> list[RankProcess]:
    """The ranks of a job, or of the only one that was started in this folder."""
    ranks = rank_processes(job)
    if not ranks:
        where = "on this host" if job is None else f"in process {job}"
        raise click.ClickException(
            f"no rank {where} can dump its calls; start the job, or pass the process "
            "id of its launcher"
        )
    if job is None:
        job_of = {rank.process: rank.job for rank in ranks}
        firsts: dict[str, int] = {}
        for process, name in job_of.items():
            firsts.setdefault(name, process)
        chosen = job_of[unnamed_job.choose(dict.fromkeys(firsts.values(), ""))]
        ranks = [rank for rank in ranks if rank.job == chosen]
    return ranks


def _answer(rank: RankProcess, file: Path | None) -> str:
    """The file of the dump of a rank, or the reason why it is missing."""
    if not rank.dumps:
        return (
            f"rank {rank.rank} (process {rank.process}) is a program in C under "
            "--preload, which dumps nothing; with COLLALGO_TIMEOUT=3 a call that waits "
            "for 3 s fails and names the rank that is missing"
        )
    if file is None:
        return (
            f"rank {rank.rank} (process {rank.process}) has not written a dump into "
            f"{rank.folder}: it may not write there, or does not run Python code"
        )
    return f"rank {rank.rank}: {file}"


@main.command("analyze")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def analyze_command(folder: Path) -> None:
    """Find the rank that diverged first from the dumps of all ranks in FOLDER.

    Dumps are written by collalgo trace dump, collalgo.dump(), SIGUSR1 and, where
    COLLALGO_DUMP names a folder, when a call fails. The exit code is 1 if a rank
    diverged, and 2 if missing dumps make the result inconclusive.
    """
    try:
        findings = analyze(folder)
    except DumpError as error:
        raise click.ClickException(str(error)) from None
    for finding in findings:
        click.echo(wrapped(_heading(finding)))
        for line in finding.lines:
            click.echo(wrapped(f"  {line}"))
    if any(finding.culprits for finding in findings):
        raise SystemExit(1)
    raise SystemExit(INCONCLUSIVE * any(each.inconclusive for each in findings))


def _heading(finding: Finding) -> str:
    name = f"communicator {finding.communicator}: "
    if finding.culprits:
        ranks = ", ".join(map(str, finding.culprits))
        several = "s" if len(finding.culprits) > 1 else ""
        among = " of those with a dump" if finding.inconclusive else ""
        return (
            f"{name}rank{several} {ranks}{among} diverged first, at call "
            f"#{finding.number}"
        )
    if finding.inconclusive:
        return f"{name}inconclusive, as dumps are missing; collect them from all ranks"
    return f"{name}no rank diverged"


@main.command("summary", epilog=epilog("last rank", "place"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def summary_command(file: Path) -> None:
    """Summarise the calls in a collalgo.trace FILE by collective and source line.

    A call waits until the last rank has entered it; the rest of its time is transfer.
    Below the table are the calls that took over twice their price, with the likely
    reason: a late rank, too few cores, a slow link or a busy host.
    """
    trace = Trace(file)
    try:
        rows = trace.summary()
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    wide_console().print(_table(rows))
    for line in _slow(trace.slow_calls()):
        click.echo(wrapped(line))


@main.command("view")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    **writes(page.PAGE),
    show_default="FILE with the suffix .html",
    help="Page to write.",
)
@force_option
@click.option("--open/--no-open", "opens", default=False, help="Open it in a browser.")
def view_command(file: Path, output: Path | None, force: bool, opens: bool) -> None:
    """Make a page of a trace FILE: its timeline and its calls.

    FILE is a trace of collalgo.trace, or of collalgo simulate --timeline. The page is
    one HTML file that needs no network.
    """
    target = output or file.with_suffix(".html")
    try:
        with patience("reading the trace"):
            text = Trace(file).page()
        page.write(target, text, force=force)
    except (OutputError, TraceError) as error:
        raise click.ClickException(str(error)) from None
    if not is_standard_output(target) and not (
        opens and webbrowser.open(target.absolute().as_uri())
    ):
        click.echo(target)


def _table(rows: list[Row]) -> Table:
    title = "mean time of a rank in all calls; less is better"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("collective")
    for name in ("calls", "elements", "time", "waiting", "transfer", *FIGURES):
        table.add_column(name, justify="right")
    table.add_column("last rank")
    table.add_column("place")
    for row in rows:
        numbers = (str(row.calls), str(row.elements))
        times = (row.seconds, row.waiting, row.seconds - row.waiting)
        figures = ("" if f is None else human_time(f) for f in (row.price, row.bound))
        spent = *map(human_time, times), *figures
        table.add_row(row.name, *numbers, *spent, row.last, row.place)
    return table


def _slow(calls: list[SlowCall]) -> Iterator[str]:
    """The lines of the calls that took over twice their price."""
    if calls:
        some = f", the longest {MOST_SLOW}" * (len(calls) > MOST_SLOW)
        yield f"{counted(len(calls), 'call')} took over twice the price{some}:"
        yield from (f"  {call.name}: {call.why}" for call in calls[:MOST_SLOW])
