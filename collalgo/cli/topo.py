"""The command ``collalgo topo``."""

from pathlib import Path

import click
from rich.table import Table

from collalgo.base import plugins
from collalgo.base.console import patience, plain_console, wide_console
from collalgo.base.legible import escaped
from collalgo.base.output_files import is_standard_output
from collalgo.base.plotting import PICTURE
from collalgo.base.wrapping import wrapped
from collalgo.cli import completing
from collalgo.cli.loading import load
from collalgo.cli.machine import (
    assume_option,
    faults_options,
    machine_arguments,
)
from collalgo.cli.options import force_option, writes
from collalgo.errors import CollalgoError, TopologyError
from collalgo.topology import compare, document, presets, show as text
from collalgo.topology.assumed import with_assumed_speeds
from collalgo.topology.detect import from_lstopo
from collalgo.topology.faults import Faults
from collalgo.topology.model import Topology

HELP = """WHAT is a file of any known format, the name of a machine or fabric (collalgo
topo list), or "here" for this machine. Names take parameters, as hosts=4 or
nvlink=25."""

#: The word for a file that cannot be read, in place of its warnings.
NOT_READ = "not read; the error is below"


PARAMETERS = (
    "Parameters of a machine: the speeds of its links (nvlink=25, GB/s; an unknown "
    f"name is answered by those it has), {', '.join(presets.JOINING)}. Those of a "
    "fabric are in parentheses with their defaults, and bandwidth= in GB/s and "
    "latency= in seconds."
)


@click.group("topo", epilog=HELP)
def main() -> None:
    """Show, convert, detect, diff and draw machines and fabrics."""


@main.command("list")
def list_command() -> None:
    """List the names of machines and fabrics."""
    table = Table("name", "description", box=None, header_style="bold")
    for name, about in presets.machines().items():
        table.add_row(name, about.strip())
    for name, (function, defaults) in presets.FABRICS.items():
        summary = (function.__doc__ or "").split("\n")[0]
        given = ", ".join(f"{key}={_shown(value)}" for key, value in defaults.items())
        table.add_row(name, f"{summary} ({given})")
    for name in plugins.names(plugins.TOPOLOGIES):
        table.add_row(name, "A plug-in")
    wide_console().print(table)
    click.echo(wrapped(PARAMETERS))


def _shown(value: object) -> str:
    """A parameter as it is written on the command line."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@main.command(epilog=HELP)
@machine_arguments
@click.option(
    "--matrix",
    is_flag=True,
    help="Show the matrix of paths, in the form of nvidia-smi topo -m.",
)
@click.option("--host", show_default="the first", help="Host of the matrix.")
@assume_option
@faults_options
def show(
    what: str,
    parameters: tuple[str, ...],
    matrix: bool,
    host: str | None,
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Show the tree of devices, or the matrix of paths."""
    if host and not matrix:
        raise click.UsageError("--host needs --matrix")
    topology = load(what, parameters, faults, warns=matrix)  # the tree has them
    if not matrix:
        known = with_assumed_speeds(topology, assume)
        plain_console().print(text.tree(known), highlight=False)
        return
    try:
        click.echo(text.matrix(topology, host))
    except TopologyError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option(
    "-o",
    "--output",
    **writes(document.TOPOLOGY),
    help="File to write, YAML or JSON by its suffix.",
)
@force_option
@click.option("--lstopo", is_flag=True, help="Use lstopo of hwloc instead of sysfs.")
def detect(output: Path | None, force: bool, lstopo: bool) -> None:
    """Detect the topology of this machine."""
    try:
        topology = from_lstopo() if lstopo else Topology.detect()
        if output:
            topology.write(output, force=force)
    except CollalgoError as error:
        raise click.ClickException(str(error)) from error
    if not is_standard_output(output):
        plain_console().print(text.tree(with_assumed_speeds(topology)), highlight=False)


@main.command(epilog=HELP)
@machine_arguments
@click.option(
    "-o",
    "--output",
    **writes(document.TOPOLOGY),
    default="-",
    help="File to write, YAML or JSON by its suffix; - is standard output.",
)
@force_option
@faults_options
def convert(
    what: str, parameters: tuple[str, ...], output: Path, force: bool, faults: Faults
) -> None:
    """Convert a topology to the native format, with faults if any."""
    topology = load(what, parameters, faults)
    try:
        topology.write(output, force=force)
    except CollalgoError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("files", nargs=-1, required=True, shell_complete=completing.machines)
def validate(files: tuple[str, ...]) -> None:
    """Read files and report their contents, warnings and errors."""
    table = Table("file", "devices", "links", "warnings", box=None, header_style="bold")
    wrong = []
    for file in files:
        try:
            topology = load(file, warns=False)
        except click.ClickException as error:
            wrong.append(error.message)
            table.add_row(escaped(file), "", "", NOT_READ)
            continue
        devices, links = len(topology.devices()), len(topology.links)
        warnings = "\n".join(topology.warnings)
        table.add_row(escaped(file), str(devices), str(links), warnings)
    wide_console().print(table)
    for message in wrong:
        click.echo(f"Error: {message}", err=True)
    if wrong:
        raise SystemExit(1)


@main.command()
@click.argument("first", shell_complete=completing.machines)
@click.argument("second", shell_complete=completing.machines)
def diff(first: str, second: str) -> None:
    """Print the differences of two topologies.

    The exit code is 1 if there are any.

    FIRST and SECOND are files of any known format, names of machines or fabrics
    (collalgo topo list), or "here" for this machine.
    """
    a, b = load(first), load(second)
    found = compare.differences(a, b)
    for line in found:
        click.echo(line)
    if found and compare.isomorphic(a, b):
        click.echo("the machines are equal up to the names and the order of devices")
    raise SystemExit(bool(found))


@main.command(epilog=HELP)
@machine_arguments
@click.option(
    "-o",
    "--output",
    **writes(PICTURE),
    required=True,
    help="File to write, SVG or PNG.",
)
@force_option
@click.option("--host", help="Draw the devices of this host only.")
@faults_options
def draw(
    what: str,
    parameters: tuple[str, ...],
    output: Path,
    force: bool,
    host: str | None,
    faults: Faults,
) -> None:
    """Draw a topology as a picture."""
    from collalgo.topology.draw import draw as draw_picture

    try:
        with patience("drawing"):
            whole = load(what, parameters)
            draw_picture(whole, output, host, faults=faults, force=force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
