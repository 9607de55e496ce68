"""The command ``collalgo cluster``."""

import os
import sys
from pathlib import Path
from typing import Any

import click
from collalgo.bench.cluster.comparison import compare
from collalgo.bench.cluster.kernel import (
    check_is_up,
    check_possible,
    clusters,
    down,
    set_link,
    up,
)
from collalgo.bench.cluster.layout import Layout, layout_of_file
from collalgo.bench.cluster.options import (
    collectives_option,
    cut_option,
    environments_option,
    parse_one_size,
    parse_rates,
    results_option,
)
from collalgo.bench.cluster.report import outcomes_in, table
from collalgo.bench.cluster.running import run
from collalgo.bench.cluster.star import HEADER, LEGEND, kept_rows, race_at, table_rows
from collalgo.bench.records import environment, keep, own_command
from collalgo.bench.stopping import exits_when_stopped

from collalgo.base.units import counted
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange, force_option, parse_sizes
from collalgo.cli.run import command_argument, command_line
from collalgo.errors import CollalgoError, TopologyError

file_argument = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


class Refusing(click.Group):
    """A command group that reports errors in one line, and cleans up when stopped."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            with exits_when_stopped():
                return super().invoke(ctx)
        except CollalgoError as error:
            raise click.ClickException(str(error)) from None


@click.group("cluster", cls=Refusing, context_settings=SETTINGS)
def main() -> None:
    """Emulate a cluster on this machine with network namespaces.

    FILE is a topology with a core for each rank and a bandwidth for each link. Needs
    root and iproute2.
    """


@main.command("up")
@file_argument
def up_command(file: Path) -> None:
    """Create the cluster of FILE."""
    layout = layout_of_file(file)
    up(layout)
    click.echo(
        f"{layout.name} is up: {counted(len(layout.hosts), 'host')}, "
        f"{counted(layout.size, 'rank')}, {counted(len(layout.cables), 'link')}"
    )


@main.command("down")
@click.argument("cluster", metavar="FILE|NAME")
def down_command(cluster: str) -> None:
    """Remove the cluster of FILE, or the one of this NAME, and kill its processes."""
    layout = _named(cluster)
    check_possible()
    check_is_up(layout)
    down(layout)


def _named(cluster: str) -> Layout:
    """The cluster of a file, or one whose file has changed, by its name."""
    if not Path(cluster).exists():
        return Layout(cluster, {})
    try:
        return layout_of_file(Path(cluster))
    except TopologyError as error:
        raise click.ClickException(
            f"{error}; correct the file, or pass the name of the cluster (collalgo "
            "cluster list)"
        ) from None


@main.command("list")
def list_command() -> None:
    """Print the names of the clusters that are up."""
    check_possible()
    for name in clusters():
        click.echo(name)


@main.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "-n",
    "--ranks",
    type=click.IntRange(1),
    show_default="one for each core",
    help="Number of ranks.",
)
@click.option(
    "--mpi",
    "prefix",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    show_default="that of this Python",
    help="Environment whose mpiexec starts the ranks.",
)
@file_argument
@command_argument
def run_command(
    ranks: int | None, prefix: Path | None, file: Path, command: tuple[str, ...]
) -> None:
    """Run COMMAND on the ranks of the cluster of FILE, which must be up.

    COMMAND is a Python script, -m and a Python module, or any program.
    """
    _refuse_late_options(command[0])
    is_module = command[0] == "-m"
    line = command_line(command[is_module:], module=is_module)
    done = run(
        layout_of_file(file), line, ranks=ranks or 0, description=file, prefix=prefix
    )
    sys.exit(done.returncode)


def _refuse_late_options(word: str) -> None:
    """Refuse an option of this command after FILE, where COMMAND begins."""
    name = word.partition("=")[0]
    known = click.get_current_context().command.params
    if name.startswith("-") and any(name in one.opts for one in known):
        raise click.UsageError(
            f"{name} follows FILE, where COMMAND begins; put it before FILE: collalgo "
            f"cluster run {name} ... FILE COMMAND"
        )


@main.command()
@file_argument
@click.argument("link")
def cut(file: Path, link: str) -> None:
    """Cut a LINK, named by a NIC (h0/nic0) or by both ends ("leaf0 - spine0")."""
    set_link(layout_of_file(file), link, working=False)


@main.command()
@file_argument
@click.argument("link")
def mend(file: Path, link: str) -> None:
    """Restore a LINK that was cut."""
    set_link(layout_of_file(file), link, working=True)


@main.command("race")
@click.option("--hosts", default=2, type=click.IntRange(2), help="Number of hosts.")
@click.option(
    "--per-host",
    default=1,
    type=click.IntRange(1),
    help="Number of ranks on each host.",
)
@click.option(
    "--rates",
    default="1,10,40,100,inf",
    callback=parse_rates,
    help="Rates of the links in Gbit/s; inf for no limit.",
)
@collectives_option
@click.option(
    "-s",
    "sizes",
    default="8,4K,64K,1M,4M,16M,64M",
    callback=parse_sizes,
    help="Bytes of the buffer: 64K, a list 1M,256M or a range 1K..1G.",
)
@environments_option
@click.option(
    "--engine",
    type=click.Choice(["mpi", "ucx"]),
    default="mpi",
    show_default=True,
    help="Engine of collalgo between the hosts.",
)
@results_option
@force_option
def race_command(
    hosts: int,
    per_host: int,
    rates: list[float],
    collectives: tuple[str, ...],
    sizes: list[int],
    environments: tuple[Path, ...],
    engine: str,
    results: Path | None,
    force: bool,
) -> None:
    """Compare collalgo with MPI and gloo between hosts with links of some rates.

    The hosts are on one switch, and are made and removed here. Calls of collalgo and
    the peers alternate in the same processes, started by the MPI of each environment.
    """
    places = environments or (Path(sys.prefix),)
    click.echo(HEADER)
    rows: list[dict[str, Any]] = []
    loads: list[float] = []
    for rate in rates:  # whose rows are shown at once, as a later race may fail
        loads.append(os.getloadavg()[0])
        found = race_at(hosts, per_host, rate, collectives, sizes, places, engine)
        click.echo("\n".join(table_rows(rate, found)))
        rows += kept_rows(rate, found)
    click.echo(LEGEND)
    if results is not None:
        about = {"hosts": hosts, "ranks": per_host, "engine": engine}
        about |= _found_by(hosts * per_host)
        keep(results, {**about, "loads": loads, "rows": rows}, force=force)


def _found_by(ranks: int) -> dict[str, Any]:
    """The command and the environment of results."""
    return {"command": own_command(), "environment": environment(ranks)}


@main.command("compare")
@file_argument
@cut_option
@collectives_option
@click.option(
    "-s",
    "size",
    default="16M",
    callback=parse_one_size,
    help="Bytes of the buffer: one size, as 64K.",
)
@click.option(
    "--most",
    default=3,
    type=click.IntRange(1),
    help="Number of cheapest algorithms to measure.",
)
@click.option(
    "--near",
    default=1.1,
    type=FiniteRange(0),
    help="Measure all algorithms with a price up to this times the cheapest, too.",
)
@click.option(
    "--rounds", default=3, type=click.IntRange(1), help="Calls of each contestant."
)
@environments_option
@results_option
@force_option
def compare_command(
    file: Path,
    cut: str | None,
    collectives: tuple[str, ...],
    size: int,
    most: int,
    near: float,
    rounds: int,
    environments: tuple[Path, ...],
    results: Path | None,
    force: bool,
) -> None:
    """Compare algorithms, MPI and gloo on the cluster of FILE.

    The cluster is made and removed here. The chosen algorithm, the cheapest others and
    the peers alternate in the same processes, with the MPI of the first environment;
    those of the other environments are compared with the chosen algorithm over them.
    """
    options = ["-s", str(size), "--rounds", str(rounds)]
    options += [word for each in collectives for word in ("-c", each)]
    places = environments or (Path(sys.prefix),)
    first = ["--most", str(most), "--near", str(near)]
    races = compare(file, cut, places, options, first)
    document = {
        "cluster": file.stem,
        "cut": cut,
        "loads": [race["load"] for race in races],
        **_found_by(layout_of_file(file).size),
        "races": [race["entries"] for race in races],
    }
    click.echo("\n".join(table(outcomes_in(document))))
    if results is not None:
        keep(results, document, force=force)
