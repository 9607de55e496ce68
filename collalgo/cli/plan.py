"""The command ``collalgo plan``."""

from collections.abc import Collection, Sequence

import click
from rich.table import Table

from collalgo.base import disk_cache
from collalgo.base.console import patience, wide_console
from collalgo.base.units import counted, human, human_time
from collalgo.base.wrapping import wrapped
from collalgo.cli.call_sizes import size_is_given
from collalgo.cli.loading import load
from collalgo.cli.machine import (
    assume_option,
    assuming,
    check_has_root,
    faults_options,
    figures_option,
    machine_arguments,
    root_option,
    sizes_option,
)
from collalgo.cli.matrix_option import check_matrix, matrix_option
from collalgo.cli.words import epilog
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.matrix_bounds import ALLTOALLV
from collalgo.errors import CollalgoError
from collalgo.selection.losses import Loss
from collalgo.selection.plans_ahead import Ahead, Call, Equals, job_link_model
from collalgo.selection.selection import Selection
from collalgo.synthesis.ways import PLANNED
from collalgo.topology.faults import Faults
from collalgo.topology.model import Kind, Topology

#: The collectives that are planned by default.
USUAL = ("allreduce", "allgather", "reduce_scatter")

#: The columns of the table of failures.
COLUMNS = (
    *("failed", "equal", "ranks", "time", "kept", "old schedule", "bound"),
    "new schedule, or the obstacle",
)


@click.command("plan", epilog=epilog("time", "bound", "x bound", "kept", "equal"))
@machine_arguments
@click.option(
    "-c",
    "--collective",
    "collectives",
    multiple=True,
    type=click.Choice([*PLANNED, ALLTOALLV]),
    show_default=", ".join(USUAL),
    help="Collective to plan; repeatable.",
)
@sizes_option
@matrix_option
@root_option
@click.option(
    "--each-failure",
    is_flag=True,
    help="Also plan for the failure of each host, device and link that ranks use.",
)
@click.option(
    "--one-of-equals",
    is_flag=True,
    help="Plan for one of the elements that are equal by symmetry, not for all.",
)
@click.option(
    "--per-host",
    type=click.IntRange(1),
    help="Number of ranks of a job on the cores of each host, priced by the host "
    "profile of this machine.",
)
@figures_option
@assume_option
@faults_options
def plan_command(
    what: str,
    parameters: tuple[str, ...],
    collectives: tuple[str, ...],
    sizes: list[int],
    matrix: ByteMatrix | None,
    root: int,
    each_failure: bool,
    one_of_equals: bool,
    per_host: int | None,
    figures: LinkModel,
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Choose and cache the algorithms of a topology ahead of a job.

    WHAT and its parameters are those of collalgo topo. A later collalgo select, a job
    on the topology and comm.replan read the choices and the synthesised schedules from
    the cache. With --each-failure, also choose for each single failure.
    """
    _check(per_host, figures)
    names = dict.fromkeys(collectives or USUAL)
    check_matrix(names, matrix, size_is_given())
    for name in names:
        check_has_root(name, root)
    calls = _calls(names, sizes, matrix)
    model = assuming(job_link_model() if per_host else figures, assume)
    topology = load(what, parameters, faults)
    _check_cores(topology, per_host)
    ahead = Ahead(topology, calls, model, per_host or 0, root)
    try:
        with patience("planning") as say:
            whole = ahead.choices(topology)
            lost = ahead.each_failure(whole, one_of_equals, say) if each_failure else []
    except CollalgoError as error:
        raise click.ClickException(str(error)) from error
    told: set[tuple[str, str]] = set()
    for call in calls:
        _show(call, whole[call], lost, told)
    click.echo(f"kept in {disk_cache.folder()}")


def _calls(
    names: Collection[str], sizes: Sequence[int], matrix: ByteMatrix | None
) -> list[Call]:
    """The calls of some collectives: of each size, or of the matrix."""
    calls = [Call(name, size) for name in names if name != ALLTOALLV for size in sizes]
    return calls if matrix is None else [*calls, Call(ALLTOALLV, None, matrix)]


def _check(per_host: int | None, figures: LinkModel) -> None:
    """Refuse to plan for nothing, and costs of two kinds."""
    if not disk_cache.keeps():
        raise click.UsageError("COLLALGO_CACHE=off keeps no plans; unset it")
    if per_host and figures is not DEFAULTS:
        raise click.UsageError(
            "--per-host takes the costs of the host profile; leave --figures out"
        )


def _check_cores(topology: Topology, per_host: int | None) -> None:
    """Refuse ranks on the cores of a machine without any."""
    if per_host and not topology.devices(Kind.CORE):
        raise click.UsageError(
            f"--per-host places ranks on cores, and {topology.name} has none; leave it "
            "out to plan for its GPUs"
        )


def _show(
    call: Call, whole: Selection, lost: Sequence[Equals], told: set[tuple[str, str]]
) -> None:
    """Print the choice for a call, and the table of failures, if any."""
    ratio = f", {whole.ratio:.2f} times the bound" if whole.ratio else ""
    text = (
        f"{call.collective} of {human(whole.nbytes)} on {counted(whole.size, 'rank')}: "
        f"{human_time(whole.seconds)}{whole.choice.mark} by {whole.choice.words}{ratio}"
    )
    click.echo(wrapped(text))
    if lost:
        _show_failures(call, lost, told)


def _show_failures(
    call: Call, lost: Sequence[Equals], told: set[tuple[str, str]]
) -> None:
    """Print the table of failures.

    What was ``told``, a failure and its obstacle, is counted only.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in COLUMNS:
        left = name in (COLUMNS[0], COLUMNS[-1])
        table.add_column(name, justify="left" if left else "right")
    rows = [_cells(call, equals) for equals in lost]
    obstacles = {(row[0], row[-1]) for row in rows if row[2] == ""}
    for row in rows:
        if (row[0], row[-1]) not in obstacles & told:
            table.add_row(*row)
    wide_console().print(table, highlight=False)
    if again := len(obstacles & told):
        click.echo(f"and {counted(again, 'row')} with an obstacle, shown above")
    told |= obstacles


def _cells(call: Call, equals: Equals) -> list[str]:
    """The row of equal elements: of those planned for the one with the longest time."""
    worst = equals.worst(call)
    cells = [str(worst.failure), str(len(equals.failures))]
    loss = worst.losses.get(call)
    if loss is None:
        return [*cells, *[""] * 5, worst.obstacles[call]]
    chosen, old = loss.chosen, loss.old_seconds
    bound = chosen.bound_seconds
    return [
        *cells,
        str(chosen.size),
        human_time(chosen.seconds) + chosen.choice.mark,
        "" if old is None else f"{loss.kept:.0%}",
        "cannot run" if old is None else human_time(old),
        "" if bound is None else human_time(bound),
        chosen.choice.words + _against_old(loss),
    ]


def _against_old(loss: Loss) -> str:
    """The reason if the schedule of the whole machine is as good as the new one."""
    if loss.why_no_candidate:
        return f"; the old one {loss.why_no_candidate}"
    old = loss.old_seconds
    is_tied = old is not None and old <= loss.chosen.seconds
    has_changed = loss.chosen.choice.words != loss.whole.choice.words
    return ", tied with the old one" if is_tied and has_changed else ""
