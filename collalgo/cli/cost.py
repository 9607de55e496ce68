"""The commands ``collalgo bound``, ``simulate`` and ``calibrate``."""

from pathlib import Path
from typing import Any

import click

from collalgo.base.chrome_trace import TRACE
from collalgo.base.plotting import PICTURE
from collalgo.base.units import human, human_time, parse_size
from collalgo.cli.options import force_option, load_option, writes
from collalgo.cli.topo import load, named, parameters_argument
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.exact import exact
from collalgo.cost.host_profile import (
    HostProfile,
    calibrate,
    host_profile,
    kept_profile,
    profile_file,
)
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.simulation import MODELS, simulate
from collalgo.cost.timeline import timeline
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology import orders, presets
from collalgo.topology.model import LinkKind, Topology

#: The orders of ranks on the devices.
ORDERS = {"ring": orders.ring_order, "rail": orders.rail_order}

size_option = click.option(
    "--size",
    "nbytes",
    callback=parse_size,
    default="1G",
    help="Bytes of the buffer, as 64K or 1G (default 1G).",
)
root_option = click.option("--root", default=0, help="Rank of the root (default 0).")


def _read_link_model(
    _context: object, _parameter: object, path: str | None
) -> LinkModel:
    """The link model of a file, or the default."""
    try:
        return LinkModel.read(path) if path else DEFAULTS
    except CollalgoError as error:
        raise click.ClickException(str(error)) from error


figures_option = click.option(
    "--figures",
    type=click.Path(exists=True, dir_okay=False),
    callback=_read_link_model,
    help="YAML file with the costs of messages that links do not give.",
)

#: Beyond this number of hosts one host represents all, for up to a million ranks.
MOST_HOSTS = 256


def load_machine(what: str, parameters: tuple[str, ...]) -> Topology | UniformCluster:
    """Load a file or a named machine; many hosts become a uniform cluster."""
    if what in presets.machines():
        given = named(parameters)
        if given.get("hosts", 1) > MOST_HOSTS:
            return UniformCluster.load(what, **given)
    return load(what, parameters)


@click.command("simulate")
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("algorithm")
@click.argument("what")
@parameters_argument
@size_option
@root_option
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    help="Order of the ranks on the devices (default: that of the topology).",
)
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="rounds",
    help="Price model (default rounds).",
)
@click.option(
    "--exact",
    "exactly",
    is_flag=True,
    help="Also compute the exact ratio to the bound.",
)
@click.option(
    "--timeline",
    "picture",
    **writes(PICTURE, json=TRACE),
    help="Write the timeline of all messages: a picture, or as .json a Perfetto trace.",
)
@force_option
@figures_option
@load_option
def simulate_command(
    collective: str,
    algorithm: str,
    what: str,
    parameters: tuple[str, ...],
    nbytes: int,
    root: int,
    order: str | None,
    model: str,
    exactly: bool,
    picture: Path | None,
    force: bool,
    figures: LinkModel,
) -> None:
    """Predict the time of a schedule on a topology, and find its bottleneck.

    WHAT and its parameters are those of collalgo topo.
    """
    try:
        machine = load_machine(what, parameters)
        where: dict[str, Any] = {"collective": collective, "root": root}
        how: dict[str, Any] = {"model": model, "link_model": figures, **where}
        if isinstance(machine, Topology):
            how["order"] = where["order"] = ORDERS[order](machine) if order else None
            if picture:
                timeline(algorithm, machine, nbytes, **how).write(picture, force=force)
        elif order or picture or exactly or model == "fluid":
            raise click.UsageError(
                f"{machine.hosts} hosts are priced by one of them: in rounds, without "
                "an order, a timeline or exact ratios"
            )
        found = [str(simulate(algorithm, machine, nbytes, **how))]
        if exactly and isinstance(machine, Topology):
            found.append(str(exact(algorithm, machine, **where)))
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(found))


@click.command("bound")
@click.argument("collective", type=click.Choice(list(BOUNDED)))
@click.argument("what")
@parameters_argument
@size_option
@root_option
@click.option(
    "--only",
    multiple=True,
    help="Kind of links that may be used; repeat for several (default all).",
)
def bound_command(
    collective: str,
    what: str,
    parameters: tuple[str, ...],
    nbytes: int,
    root: int,
    only: tuple[str, ...],
) -> None:
    """Compute the lower bound of a collective on a topology, and its reason.

    WHAT and its parameters are those of collalgo topo.
    """
    try:
        kinds = [LinkKind(kind) for kind in only] or None
        found = bound(collective, load_machine(what, parameters), root, kinds)
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    least = human_time(found.seconds(nbytes))
    most = f", at most {found.bandwidth:.4g} GB/s" if found.per_byte else ""
    click.echo(f"{collective} of {human(nbytes)}: at least {least}{most}")
    by_bytes = found.seconds(nbytes) > found.latency
    kind = "attained by trees" if found.exact and by_bytes else "a bound"
    click.echo(f"{kind}: {found.why(nbytes)}")


@click.command("calibrate")
@click.option(
    "--show",
    is_flag=True,
    help="Print the known profile; measure only if there is none.",
)
def calibrate_command(show: bool) -> None:
    """Measure the costs of a message, a copy and a reduction on this machine.

    The measurement takes a few seconds; prices are computed from its results, which are
    cached.
    """
    profile = host_profile() if show else calibrate()
    rows = _profile_rows(profile)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:{width}}  {value}")
    if kept_profile() == profile:
        click.echo(f"kept in {profile_file()}")
    else:
        click.echo(
            f"not kept in {profile_file()}: it cannot be written, or this machine is "
            "too busy to be measured, and these are typical values"
        )


def _profile_rows(known: HostProfile) -> list[tuple[str, str]]:
    """The values of a profile with their labels."""
    copy = max(known.copy_far, known.copy)
    reduce = max(known.reduce_far, known.reduce)
    rows = [
        ("a hand-over between two cores", human_time(known.latency)),
        ("a hand-over on one core", human_time(known.switch)),
        ("each further message of a rank", human_time(known.message)),
        ("a copy, per core", f"{1e-9 / known.copy:.1f} GB/s"),
        ("a reduction, per core", f"{1e-9 / known.reduce:.1f} GB/s"),
        ("a copy beyond the caches", f"{1e-9 / copy:.1f} GB/s"),
        ("a reduction beyond the caches", f"{1e-9 / reduce:.1f} GB/s"),
        ("cores", str(known.cores)),
    ]
    if known.exchange and known.fetch:
        rows += [
            ("a swap through shared memory", f"{1e-9 / known.exchange:.1f} GB/s"),
            ("a swap by the kernel", f"{1e-9 / known.fetch:.1f} GB/s"),
        ]
    return rows
