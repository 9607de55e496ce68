"""Write tuning files of peers: from measurements of their algorithms, or prices."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import click
from collalgo.bench.jobs import progress_bar
from collalgo.bench.peers.algorithms import (
    SIZELESS,
    cells_of,
    measure_algorithms,
    table_of,
)
from collalgo.bench.peers.contest import BURST, ROUNDS, TRIALS
from collalgo.bench.peers.environments import installs, peers
from collalgo.bench.records import Record
from collalgo.bench.sweep import Sweep
from collalgo.bench.tuning import gained, nearness, rules_of

from collalgo.base import output_files
from collalgo.base.console import patience
from collalgo.base.output_files import Format, is_standard_output
from collalgo.base.units import counted, human_time
from collalgo.cli.options import write_or_refuse
from collalgo.errors import CollalgoError
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.peer_rules import mpich, nccl, openmpi, ucc
from collalgo.selection.peer_rules.algorithms import Table
from collalgo.selection.peer_rules.priced import priced_table
from collalgo.selection.policies.nccl import World


class Export(NamedTuple):
    """A format of tuning files.

    Attributes
    ----------
    peer : str
        The peer that reads it.
    kind : Format
        What the files are.
    text_of : callable
        The text of a table with a mark, on a cluster that NCCL's model knows.
    environment : callable
        The variables with which the peer follows a file, on a number of hosts.
    """

    peer: str
    kind: Format
    text_of: Callable[[Table, str, World | None], str]
    environment: Callable[[str, int], dict[str, str]]


def _of_nccl(table: Table, mark: str, world: World | None) -> str:
    assert world is not None  # NCCL is not measured
    return nccl.text_of(table, mark, world)


#: The formats by the names of the command.
EXPORTS = {
    "openmpi": Export(
        "openmpi",
        Format("a rules file of Open MPI"),
        lambda table, mark, _: openmpi.text_of(table, mark),
        openmpi.environment,
    ),
    "openmpi-json": Export(
        "openmpi",
        Format("a JSON rules file of Open MPI"),
        lambda table, mark, _: openmpi.json_of(table, mark),
        openmpi.environment,
    ),
    "mpich": Export(
        "mpich",
        Format("a selection file of MPICH"),
        lambda table, mark, _: mpich.text_of(table, mark),
        mpich.environment,
    ),
    "nccl": Export("nccl", Format("a tuner file of NCCL"), _of_nccl, nccl.environment),
    "ucc": Export(
        "ucc",
        Format("a configuration file of UCC"),
        lambda table, mark, _: ucc.text_of(table, mark),
        ucc.environment,
    ),
}

#: The kinds of files by the names of the formats.
KINDS = {name: export.kind for name, export in EXPORTS.items()}

#: The peers whose algorithms can be measured here.
MEASURED = ("openmpi", "mpich")


def export_measured(
    name: str, file: Path, ranks: Sequence[int], sweep: Sweep, *, force: bool
) -> None:
    """Measure the algorithms of a peer on this host, and write its tuning file."""
    export = EXPORTS[name]
    if export.peer not in MEASURED:
        raise click.UsageError(
            f"the algorithms of {name} cannot be measured here; name a topology to "
            "price them on, as --topology dgx_h100"
        )
    _check_second(export, file, force)
    for line in installs(peers(export.peer)[:1]):
        click.echo(line, err=True)
    records = _measured(export.peer, ranks, sweep)
    table = table_of(export.peer, records)
    _write(export, file, table, hosts=1, force=force)
    rules = rules_of(records, SIZELESS[export.peer])
    click.echo(f"before: {nearness(records)}", err=is_standard_output(file))
    click.echo(f"after: {gained(records, rules)}", err=is_standard_output(file))


def _measured(peer: str, ranks: Sequence[int], sweep: Sweep) -> list[Record]:
    """The rows of all algorithms of a peer, for each of these numbers of ranks."""
    records: list[Record] = []
    try:
        for count in ranks:
            click.echo(_estimate(peer, count, sweep), err=True)
            cells = len(cells_of(peer, count, sweep))
            with progress_bar(sweep, count, total=cells) as progress:
                records += measure_algorithms(peer, count, sweep, progress)
    except (CollalgoError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return records


def export_priced(
    name: str, file: Path, pricer: TopologyPricer, *, force: bool
) -> None:
    """Write a tuning file for all ranks of a topology, from prices."""
    export = EXPORTS[name]
    _check_second(export, file, force)
    hosts = len(pricer.placement.hosts)
    with patience("pricing"):
        table = priced_table(export.peer, pricer)
    _write(export, file, table, hosts, world=pricer.world, force=force)


def _estimate(peer: str, ranks: int, sweep: Sweep) -> str:
    """What is measured on a number of ranks, and about how long that takes."""
    cells = cells_of(peer, ranks, sweep)
    calls = sum(number for _, number in cells)
    seconds = calls * (TRIALS + ROUNDS) * BURST
    return (
        f"{counted(ranks, 'rank')}: {counted(len(cells), 'cell')}, "
        f"{calls} algorithms of them, {human_time(seconds)} or more"
    )


def _check_second(export: Export, file: Path, force: bool) -> None:
    """Refuse a second file of another program before the work."""
    if export.peer == "mpich" and not is_standard_output(file):
        second = mpich.shared_file(str(file))
        try:
            output_files.check(second, export.kind, force=force)
        except CollalgoError as error:
            raise click.ClickException(str(error)) from None


def _write(
    export: Export,
    file: Path,
    table: Table,
    hosts: int,
    *,
    world: World | None = None,
    force: bool,
) -> None:
    """Write a table, and print the line of a shell by which the peer follows it."""
    mark = export.kind.mark
    write_or_refuse(file, export.text_of(table, mark, world), export.kind, force=force)
    if is_standard_output(file):
        return
    if export.peer == "mpich" and hosts == 1:
        second = Path(mpich.shared_file(str(file)))
        text = mpich.shared_text_of(table, mark)
        write_or_refuse(second, text, export.kind, force=force)
    click.echo(to_follow(file, export.environment(str(file.absolute()), hosts)))


def to_follow(file: Path, variables: Mapping[str, str]) -> str:
    """How programs of a shell follow a file: a line to paste, with its variables."""
    words = " ".join(f"{name}={quote(value)}" for name, value in variables.items())
    return f"to follow {file}:\nexport {words}"
