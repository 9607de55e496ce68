"""The options of commands on algorithms, for ranks on a topology."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from collalgo.cli.loading import load
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    figures_option,
    hosts_option,
    nics_option,
    parameters_argument,
    shape,
    topology_option,
)
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.errors import CollalgoError
from collalgo.topology.faults import WHOLE, Faults


class Ranks(NamedTuple):
    """The ranks of an algorithm.

    Attributes
    ----------
    link_model : LinkModel
        The costs of their messages.
    placement : Placement or None
        Their devices, if a topology is given.
    """

    link_model: LinkModel
    placement: Placement | None


_OPTIONS = (
    parameters_argument,
    topology_option,
    hosts_option,
    nics_option,
    figures_option,
    assume_option,
    faults_options,
)


def ranks_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options for a topology, passed as ``ranks``."""

    @wraps(command)
    def with_ranks(
        *words: Any,
        parameters: tuple[str, ...],
        topology: str | None,
        figures: LinkModel,
        assume: dict[str, float],
        faults: Faults,
        **options: Any,
    ) -> None:
        parameters += shape(options)
        model = assuming(figures, assume)
        if topology is None:
            _refuse(parameters, assume, faults)
            ranks = Ranks(model, None)
        else:
            ranks = Ranks(model, _placement(topology, parameters, faults, model))
        command(*words, ranks=ranks, **options)

    added = with_ranks
    for option in reversed(_OPTIONS):
        added = option(added)
    return added


def _placement(
    topology: str, parameters: tuple[str, ...], faults: Faults, model: LinkModel
) -> Placement:
    """The ranks on the devices of a topology."""
    try:
        return Placement(load(topology, parameters, faults), (), model)
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None


def _refuse(
    parameters: tuple[str, ...], assume: dict[str, float], faults: Faults
) -> None:
    """Refuse what only a topology has."""
    if parameters or assume or faults != WHOLE:
        given = " ".join(parameters) or ("--assume" if assume else "faults")
        if parameters:
            raise click.UsageError(
                f"{given}: pass --topology, whose parameters these are; those of an "
                "algorithm go inside its parentheses, quoted for the shell: "
                "'ring(segments=4)'"
            )
        raise click.UsageError(f"{given}: pass --topology, to which this applies")
