"""The commands ``collalgo bound`` and ``collalgo simulate``."""

import click

from collalgo.collective import COLLECTIVES
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.simulation import MODELS, simulate
from collalgo.errors import CollalgoError
from collalgo.sizes import human, human_time, parse_size
from collalgo.topology import orders
from collalgo.topology.cli import load, parameters_argument
from collalgo.topology.model import LinkKind

#: In which order ranks may stand on the devices.
ORDERS = {"ring": orders.ring_order, "rail": orders.rail_order}

size_option = click.option(
    "--size", "nbytes", callback=parse_size, default="1G", help="Bytes, as 64K or 1G."
)
root_option = click.option("--root", default=0, help="The rank of the root.")


@click.command("simulate")
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("algorithm")
@click.argument("what")
@parameters_argument
@size_option
@root_option
@click.option("--order", type=click.Choice(list(ORDERS)), help="Of ranks on devices.")
@click.option("--model", type=click.Choice(MODELS), default="rounds", help="Which.")
def simulate_command(
    collective: str,
    algorithm: str,
    what: str,
    parameters: tuple[str, ...],
    nbytes: int,
    root: int,
    order: str | None,
    model: str,
) -> None:
    """Say what a schedule costs on a topology, and which link is in its way.

    WHAT and its parameters are those of collalgo topo.
    """
    try:
        topology = load(what, parameters)
        places = ORDERS[order](topology) if order else None
        found = simulate(
            algorithm,
            topology,
            nbytes,
            collective=collective,
            root=root,
            order=places,
            model=model,
        )
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(str(found))


@click.command("bound")
@click.argument("collective", type=click.Choice(list(BOUNDED)))
@click.argument("what")
@parameters_argument
@size_option
@root_option
@click.option("--only", multiple=True, help="Kinds of links that may be used.")
def bound_command(
    collective: str,
    what: str,
    parameters: tuple[str, ...],
    nbytes: int,
    root: int,
    only: tuple[str, ...],
) -> None:
    """Say how fast a collective can be on a topology, and what is in the way.

    WHAT and its parameters are those of collalgo topo.
    """
    try:
        kinds = [LinkKind(kind) for kind in only] or None
        found = bound(collective, load(what, parameters), root, kinds)
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    least = human_time(found.seconds(nbytes))
    most = f", at most {found.bandwidth:.4g} GB/s" if found.per_byte else ""
    click.echo(f"{collective} of {human(nbytes)}: at least {least}{most}")
    by_bytes = found.seconds(nbytes) > found.latency
    kind = "attained by trees" if found.exact and by_bytes else "a bound"
    click.echo(f"{kind}: {found.why(nbytes)}")
