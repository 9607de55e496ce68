"""The command ``collalgo bound``."""

import click

from collalgo.base.units import human, human_time
from collalgo.cli.machine import (
    load_machine,
    parameters_argument,
    root_option,
    sizes_option,
)
from collalgo.cost.bounds import BOUNDED, Bound, bound
from collalgo.errors import CollalgoError
from collalgo.topology.model import LinkKind


@click.command("bound")
@click.argument("collective", type=click.Choice(list(BOUNDED)))
@click.argument("what")
@parameters_argument
@sizes_option
@root_option
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([kind.value for kind in LinkKind]),
    help="Kind of links that may be used; repeat for several (default all).",
)
def bound_command(
    collective: str,
    what: str,
    parameters: tuple[str, ...],
    sizes: list[int],
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
    for nbytes in sizes:
        click.echo(_words(found, nbytes))


def _words(found: Bound, nbytes: int) -> str:
    """The bound for a size, and its reason."""
    least = human_time(found.seconds(nbytes))
    most = f", at most {found.bandwidth:.4g} GB/s" if found.per_byte else ""
    by_bytes = found.seconds(nbytes) > found.latency
    kind = "attained by trees" if found.exact and by_bytes else "a bound"
    return (
        f"{found.collective} of {human(nbytes)}: at least {least}{most}\n"
        f"{kind}: {found.why(nbytes)}"
    )
