"""The command ``collalgo bound``."""

from collections.abc import Sequence

import click

from collalgo.base.console import patience
from collalgo.base.units import human_time
from collalgo.base.wrapping import wrapped
from collalgo.cli.call_sizes import size_is_given, sizes_of_call
from collalgo.cli.loading import with_and_without
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    machine_arguments,
    root_option,
    sizes_option,
)
from collalgo.cli.matrix_option import check_matrix, matrix_option
from collalgo.cli.words import epilog
from collalgo.cost.bounds import BOUNDED, Bound, bound
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.link_model import DEFAULTS
from collalgo.cost.matrix_bounds import ALLTOALLV
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError
from collalgo.schedule.collective import collective_of
from collalgo.topology.assumed import extremes, kind_of, marked, name_in
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import LinkKind, Topology


@click.command(
    "bound", epilog=epilog("bound", "cut", "attained by trees", "algbw", "assumed")
)
@click.argument("collective", type=click.Choice([*BOUNDED, ALLTOALLV]))
@machine_arguments
@sizes_option
@matrix_option
@root_option
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([kind.value for kind in LinkKind]),
    show_default="all kinds",
    help="Kind of links that may be used; repeatable.",
)
@assume_option
@faults_options
def bound_command(
    collective: str,
    what: str,
    parameters: tuple[str, ...],
    sizes: list[int],
    matrix: ByteMatrix | None,
    root: int,
    only: tuple[str, ...],
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Compute the lower bound of a collective, and its cut.

    WHAT and its parameters are those of collalgo topo. The bytes of an alltoallv are
    those of the matrix.
    """
    sizes = _sizes(collective, sizes, root, matrix)
    kinds = [LinkKind(kind) for kind in only] or None
    machine, intact = with_and_without(faults, what, parameters)

    def bound_on(machine: Topology | UniformCluster, speeds: dict[str, float]) -> Bound:
        model = assuming(DEFAULTS, {**assume, **speeds})
        return bound(collective, machine, root, kinds, model, matrix)

    try:
        with patience("computing the bound"):
            found = bound_on(machine, {})
            whole = bound_on(intact, {}) if faults != WHOLE else None
            spans = _spans(found, assume)
            ends = [bound_on(machine, each) for each in _fastest_and_slowest(spans)]
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for nbytes in sizes:
        click.echo(wrapped(_words(found, nbytes)))
        if spans and found.rests_on(nbytes):
            click.echo(wrapped(_range(spans, ends, nbytes)))
        click.echo(_loss(found, whole, nbytes), nl=False)
    _print_assumed(found)


def _sizes(
    collective: str, sizes: list[int], root: int, matrix: ByteMatrix | None
) -> list[int]:
    """The sizes to compute the bound for; a matrix has the only one."""
    check_matrix([collective], matrix, size_is_given())
    sizes = sizes_of_call(collective, sizes, root)
    return sizes if matrix is None else [matrix.total]


def _spans(found: Bound, given: dict[str, float]) -> dict[str, tuple[float, float]]:
    """The greatest and least speeds of the kinds that are assumed, and not given."""
    named = {kind_of(name) for name in given}
    return extremes({kind_of(name_in(rule)) for rule in found.assumed} - named)


def _print_assumed(found: Bound) -> None:
    """Print the assumed speeds that a bound rests on."""
    for rule in found.assumed:
        click.echo(wrapped(f"assumed: {rule}"))


def _fastest_and_slowest(
    spans: dict[str, tuple[float, float]],
) -> list[dict[str, float]]:
    """The greatest and the least speeds of some kinds of links; nothing for none."""
    return [{kind: span[i] for kind, span in spans.items()} for i in (1, 0) if spans]


def _loss(found: Bound, whole: Bound | None, nbytes: int) -> str:
    """The bound of a machine with faults beside that of the whole machine, if any."""
    if whole is None:
        return ""
    least, now = whole.seconds(nbytes), found.seconds(nbytes)
    times = now / least if least else 1.0
    text = f"without the faults at least {human_time(least)}"
    verb = "raise" if times >= 1 else "leave fewer ranks and change"
    return f"{text}; the faults {verb} it by a factor of {times:.2f}\n"


def _range(
    spans: dict[str, tuple[float, float]], ends: Sequence[Bound], nbytes: int
) -> str:
    """The bounds with the fastest and the slowest links of the assumed kinds."""
    speeds = ", ".join(
        f"{kind} of {low:g} to {high:g} GB/s" for kind, (low, high) in spans.items()
    )
    least, most = (human_time(end.seconds(nbytes)) for end in ends)
    if least == most:
        return f"with {speeds}: the same"
    return f"with {speeds}: at least {least} to {most}"


def _words(found: Bound, nbytes: int) -> str:
    """The bound for a size, and its reason."""
    mark = marked(found.rests_on(nbytes))
    least = human_time(found.seconds(nbytes)) + mark
    most = f", algbw at most {found.bandwidth:.4g} GB/s" if found.per_byte else ""
    most += marked(found.assumed)
    by_trees = found.exact and found.is_by_bytes(nbytes)
    attained = "by a flow" if found.collective.startswith("alltoall") else "by trees"
    kind = f"attained {attained}" if by_trees else "reason"
    if mark:
        kind += " if the speed is as assumed"
    return (
        f"{collective_of(found.collective).sized(found.collective, nbytes)}: at least "
        f"{least}{most}\n"
        f"{kind}: {found.why(nbytes)}"
    )
