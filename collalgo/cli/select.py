"""The command ``collalgo select``."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from collalgo.base.console import patience
from collalgo.base.plotting import PICTURE
from collalgo.base.units import UNIT
from collalgo.base.wrapping import wrapped
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    figures_option,
    hosts_option,
    load_machine,
    nics_option,
    shape,
    topology_option,
)
from collalgo.cli.options import force_option, load_option, parse_sizes, writes
from collalgo.cli.selection_table import Others, show
from collalgo.cli.words import epilog
from collalgo.cost.link_model import LinkModel
from collalgo.errors import AlgorithmNotApplicable, CollalgoError, TopologyError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.choice import select
from collalgo.selection.decide import PRICE
from collalgo.selection.losses import Loss
from collalgo.selection.on_host import MOST_RANKS
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS
from collalgo.selection.selection import SHOWN, Selection
from collalgo.topology.faults import WHOLE, Faults

#: The most ranks on hosts that differ, for which hundreds of prices take minutes.
MOST_UNEQUAL = 2048

#: The terms in the output that the help explains.
SAID = epilog(
    "time", "x bound", "bound", "decided by", "along the ring", "narrowest hosts last",
    "assumed", "roughly", "one_shot, two_shot, ...",
)  # fmt: skip


@click.command("select", epilog=SAID)
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("words", nargs=-1, metavar="[SIZE] [NAME=VALUE]...")
@click.option(
    "--size",
    "range_",
    show_default="8..1G",
    help="Bytes of the buffer: 64K, a list 1M,256M or a range 1K..1G.",
)
@click.option(
    "-n",
    "ranks",
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
@click.option("--algorithm", help="Algorithm to use instead of the cheapest.")
@click.option("--policy", help=f"Policy: {', '.join(PEERS)}, or a rules file.")
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
    dgx1v --hosts 4. One size prints the prices of all algorithms, a range of sizes, the
    default, a table of the choices.
    """
    sizes, words = _sizes_and_parameters(words, range_)
    words += shape(options)
    _check_target(ranks, topology, words, assume, faults)
    prices = partial(_pricer, topology, words, assuming(figures, assume))
    try:
        pricer = prices(faults)
        decide = partial(select, collective, size=ranks, topology=pricer)
        chosen = _choices(decide, sizes, options)
        others = _others(decide, sizes, pricer) if peers else {}
        losses = _losses(chosen, pricer, prices, faults, partial(decide, **options))
        if picture:
            _draw(chosen, others, picture, force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        _print_json(chosen, losses)
    elif len(chosen) > 1 or peers:
        show(chosen, others, losses)
    else:
        _explain(chosen[0], losses, everything)


def _explain(chosen: Selection, losses: Sequence[Loss], everything: bool) -> None:
    """Print the explanation of a choice, and its loss by faults."""
    text = chosen.explain(None if everything else SHOWN)
    click.echo(wrapped("\n".join([text, *map(str, losses)])))


def _choices(
    decide: Callable[..., Selection], sizes: Sequence[int], options: dict[str, Any]
) -> list[Selection]:
    """The choice for each size."""
    with patience("pricing"):
        return [decide(nbytes, **options) for nbytes in sizes]


def _sizes_and_parameters(
    words: tuple[str, ...], range_: str | None
) -> tuple[list[int], tuple[str, ...]]:
    """The sizes, if any precede the parameters of the topology, and the parameters."""
    if words and "=" not in words[0]:
        if range_ is not None:
            raise click.UsageError(f"two sizes: {words[0]} and --size {range_}")
        parts = 1 + any(map(UNIT.fullmatch, words[1:2]))  # as 64 MiB in two words
        range_, words = " ".join(words[:parts]), words[parts:]
    sizes = parse_sizes(None, None, range_ or "8..1G")
    assert sizes is not None
    return sizes, words


def _check_target(
    ranks: int | None,
    topology: str | None,
    parameters: tuple[str, ...],
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Check that one machine is given, with options that it has."""
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


def _losses(
    chosen: Sequence[Selection],
    pricer: TopologyPricer | None,
    prices: Callable[[Faults], TopologyPricer | None],
    faults: Faults,
    decide: Callable[..., Selection],
) -> list[Loss]:
    """The loss of each choice by faults, if any, against the whole machine."""
    if pricer is None or faults == WHOLE:
        return []
    whole, placement = prices(WHOLE), pricer.placement
    return [
        Loss.of(one, decide(one.nbytes, topology=whole), placement) for one in chosen
    ]


def _print_json(chosen: Sequence[Selection], losses: Sequence[Loss]) -> None:
    """Print a selection as a mapping, several as a list of them."""
    found = [one.as_dict() for one in chosen]
    for one, loss in zip(found, losses, strict=False):
        one["whole"] = loss.as_dict()
    click.echo(json.dumps(found if len(found) > 1 else found[0], indent=1))


def _pricer(
    topology: str | None,
    words: tuple[str, ...],
    link_model: LinkModel,
    faults: Faults,
) -> TopologyPricer | None:
    """The prices on a topology, if one is given; the same for all sizes."""
    if topology is None:
        return None
    pricer = TopologyPricer(load_machine(topology, words, faults), link_model)
    if pricer.placement.cluster is None and pricer.size > MOST_UNEQUAL:
        raise TopologyError(
            f"{pricer.topology.name}: {pricer.size} ranks on hosts that differ are "
            f"more than the {MOST_UNEQUAL} for which all algorithms are compared; "
            "price one by collalgo simulate, or take a part of the machine"
        )
    return pricer


def _draw(
    chosen: Sequence[Selection], others: Others, picture: Path, force: bool
) -> None:
    from collalgo.selection.plot import plot  # which needs matplotlib

    plot(chosen, others, picture, force=force)


def _others(
    decide: Callable[..., Selection],
    sizes: Sequence[int],
    pricer: TopologyPricer | None,
) -> Others:
    """The choices of each peer for the same sizes; None where it has none."""
    names = [name for name in PEERS if pricer is not None or name != "nccl"]
    return {name: [_other(decide, nbytes, name) for nbytes in sizes] for name in names}


def _other(
    decide: Callable[..., Selection], nbytes: int, peer: str
) -> Selection | None:
    try:
        other = decide(nbytes, policy=peer)
    except AlgorithmNotApplicable:
        return None
    return other if other.decider != PRICE else None
