"""The command ``collalgo select``."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from collalgo.base.console import patience
from collalgo.base.plotting import PICTURE
from collalgo.base.units import UNIT, sizes_in_bytes
from collalgo.base.wrapping import wrapped
from collalgo.cli import completing
from collalgo.cli.call_sizes import sizes_to_price
from collalgo.cli.late_option import check_on_time, late_option
from collalgo.cli.loading import with_and_without
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    figures_option,
    hosts_option,
    nics_option,
    split_what,
    topology_option,
)
from collalgo.cli.matrix_option import check_matrix, matrix_option
from collalgo.cli.options import force_option, load_option, parse_sizes, writes
from collalgo.cli.selection_table import Others, draw, json_of, of_peers, show
from collalgo.cli.words import epilog
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.link_model import LinkModel
from collalgo.cost.matrix_bounds import ALLTOALLV
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError, TopologyError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.choice import select
from collalgo.selection.decide import PRICE
from collalgo.selection.losses import Loss
from collalgo.selection.on_host import MOST_RANKS
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS
from collalgo.selection.selection import SHOWN, Selection
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import Topology

#: The most ranks on hosts that are not known to be equal; more take minutes.
MOST_UNEQUAL = 4096

#: The default sizes, in bytes.
DEFAULT_SIZES = "8..1G"
SIZES = sizes_in_bytes(DEFAULT_SIZES)

#: The options of faults, whose losses are those of ranks on time.
FAULTS = "--without or --degraded"

#: A machine with its faults, and without.
Machines = tuple[Topology | UniformCluster | None, Topology | UniformCluster | None]

#: The terms in the output that the help explains.
SAID = epilog(
    "time", "x bound", "bound", "decided by", "x whole", "its schedule",
    "along the ring", "narrowest hosts last", "assumed", "roughly", "tied with",
    "nearly as cheap as", "synthesized(...)", "one_shot, two_shot, ...",
)  # fmt: skip


@click.command("select", epilog=SAID)
@click.argument("collective", type=click.Choice([*COLLECTIVES, ALLTOALLV]))
@click.argument(
    "words", nargs=-1, metavar="[SIZE] [WHAT] [NAME=VALUE]...",
    shell_complete=completing.machine_first,
)  # fmt: skip
@click.option(
    "--size",
    "range_",
    show_default=DEFAULT_SIZES,
    help="Bytes of the buffer: 64K, a list 1M,256M or a range 1K..1G.",
)
@matrix_option
@click.option(
    "-n",
    "--ranks",
    type=click.IntRange(1, MOST_RANKS),
    help="Number of ranks on this machine.",
)
@topology_option
@hosts_option
@nics_option
@click.option(
    "--reproducible",
    is_flag=True,
    help="Use only algorithms that reduce in rank order.",
)
@click.option(
    "--algorithm",
    shell_complete=completing.algorithms,
    help="Algorithm to use instead of the cheapest.",
)
@click.option(
    "--policy", shell_complete=completing.policies,
    help=f"Policy: {', '.join(PEERS)}, or a rules file.",
)  # fmt: skip
@late_option
@click.option("--peers", is_flag=True, help="Also show the choices of other libraries.")
@click.option(
    "--all", "everything", is_flag=True, help="List all candidates instead of ten."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--plot", "picture", **writes(PICTURE), help="Plot the times to this file."
)
@force_option
@figures_option
@assume_option
@faults_options
@load_option
def select_command(
    collective: str,
    words: tuple[str, ...],
    range_: str | None,
    matrix: ByteMatrix | None,
    ranks: int | None,
    topology: str | None,
    figures: LinkModel,
    assume: dict[str, float],
    faults: Faults,
    peers: bool,
    everything: bool,
    as_json: bool,
    picture: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """Choose the fastest algorithm and explain why.

    For ranks on this machine (-n), or on a topology with its parameters, as --topology
    dgx1v --hosts 4 or dgx1v hosts=4. One size prints the prices of all algorithms, a
    range of sizes, the default, a table of the choices.
    """
    check_on_time(options["late"], {"--peers": peers, FAULTS: any(faults)})
    sizes, words = _sizes(collective, (words, range_, matrix), picture, everything)
    topology, words = split_what(words, topology, options)
    _check_target(ranks, topology, words, (assume, faults, matrix))
    machine, whole = _machines(topology, words, faults)
    pricer_of = partial(_pricer, assuming(figures, assume))
    try:
        pricer = pricer_of(machine)
        decide = partial(select, collective, counts=matrix, size=ranks, topology=pricer)
        chosen = _choices(decide, sizes, options)
        others = of_peers(decide, sizes, pricer) if peers else {}
        intact = None if machine is whole else pricer_of(whole)
        losses = _losses(chosen, pricer, intact, partial(decide, **options), matrix)
        draw(chosen, others, picture, force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _print(chosen, others, losses, as_json=as_json, everything=everything)


def _print(
    chosen: Sequence[Selection],
    others: Others,
    losses: Sequence[Loss],
    *,
    as_json: bool,
    everything: bool,
) -> None:
    """Print a table of choices, or the explanation of one and its loss by faults."""
    if as_json:
        with patience("pricing every candidate"):
            text = json_of(chosen, others, losses)
        click.echo(text)
        return
    if len(chosen) > 1 or others:
        show(chosen, others, losses)
        return
    with patience("pricing"):  # what is listed has no price before
        text = chosen[0].explain(None if everything else SHOWN)
    click.echo(wrapped("\n".join([text, *map(str, losses)])))


def _choices(
    decide: Callable[..., Selection],
    sizes: Sequence[int | None],
    options: dict[str, Any],
) -> list[Selection]:
    """The choice for each size."""
    found = []
    with patience("pricing") as say:
        for i, nbytes in enumerate(sizes):
            if len(sizes) > 1:
                say(f"pricing size {i + 1} of {len(sizes)}")
            found.append(decide(nbytes, **options))
    policy = options.get("policy")
    if policy and all(each.decider == PRICE for each in found):
        click.echo(
            f"the policy {policy} names no algorithm for this {found[0].collective}, "
            "so that the price decides",
            err=True,
        )
    return found


def _sizes(
    collective: str,
    given: tuple[tuple[str, ...], str | None, ByteMatrix | None],
    picture: Path | None,
    only_one: bool,
) -> tuple[Sequence[int | None], tuple[str, ...]]:
    """The sizes, if any precede the topology and its parameters, and the rest.

    A matrix has the only size.
    """
    words, range_, matrix = given
    if words and words[0][:1].isdigit() and "=" not in words[0]:
        if range_ is not None:
            raise click.UsageError(f"two sizes: {words[0]} and --size {range_}")
        parts = 1 + any(map(UNIT.fullmatch, words[1:2]))  # as 64 MiB in two words
        range_, words = " ".join(words[:parts]), words[parts:]
    check_matrix([collective], matrix, range_ is not None)
    if matrix is not None:
        return [None], words
    sizes = parse_sizes(None, None, range_)
    if only_one and len(sizes or SIZES) > 1:
        raise click.UsageError(
            f"--all needs one size, but {len(sizes or SIZES)} are given"
        )
    sizes = sizes_to_price(collective, sizes or SIZES, given=sizes is not None)
    if picture and not any(sizes):
        raise click.UsageError("--plot shows times by size; give a size above 0")
    return sizes, words


def _check_target(
    ranks: int | None,
    topology: str | None,
    parameters: tuple[str, ...],
    options: tuple[dict[str, float], Faults, ByteMatrix | None],
) -> None:
    """Check that one machine is given, with options that it has."""
    assume, faults, matrix = options
    if (ranks is None) == (topology is None):
        raise click.UsageError(
            "give either -n, for ranks on this machine, or --topology, for ranks on "
            "its GPUs, cores or hosts"
        )
    if topology is not None:
        return
    if parameters:
        given = " ".join(parameters)
        raise click.UsageError(f"{given}: parameters need --topology")
    if assume:
        raise click.UsageError("--assume needs --topology")
    if faults != WHOLE:
        raise click.UsageError("--without and --degraded need --topology")
    if matrix is not None:
        raise click.UsageError("--matrix needs --topology; -n has no links to price")


def _machines(topology: str | None, words: tuple[str, ...], faults: Faults) -> Machines:
    """The machine with its faults, and without; the same one if it has none."""
    if topology is None:
        return None, None
    return with_and_without(faults, topology, words)


def _losses(
    chosen: Sequence[Selection],
    pricer: TopologyPricer | None,
    whole: TopologyPricer | None,
    decide: Callable[..., Selection],
    matrix: ByteMatrix | None,
) -> list[Loss]:
    """The loss of each choice against that for the whole machine, if it has faults."""
    if pricer is None or whole is None:
        return []
    sizes = [None if matrix is not None else one.nbytes for one in chosen]
    with patience("pricing the whole machine"):
        decided = [decide(nbytes, topology=whole) for nbytes in sizes]
        pairs = zip(chosen, decided, strict=True)
        return [Loss.of(one, other, pricer.placement, matrix) for one, other in pairs]


def _pricer(
    link_model: LinkModel, machine: Topology | UniformCluster | None
) -> TopologyPricer | None:
    """The prices on a topology, if one is given; the same for all sizes."""
    if machine is None:
        return None
    pricer = TopologyPricer(machine, link_model)
    if pricer.placement.cluster is None and pricer.size > MOST_UNEQUAL:
        raise TopologyError(
            f"{pricer.topology.name}: {pricer.size} ranks are more than the "
            f"{MOST_UNEQUAL} for which all algorithms are compared on a graph of "
            "hosts; price one by collalgo simulate, or take a part of the machine"
        )
    return pricer
