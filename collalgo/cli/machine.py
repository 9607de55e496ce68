"""The arguments and options of commands on a machine."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from collalgo.cli.completing import machine_first, machines
from collalgo.cli.options import parse_sizes
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.errors import CollalgoError, TopologyError
from collalgo.schedule.collective import collective_of
from collalgo.topology import assumed
from collalgo.topology.faults import Faults

parameters_argument = click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")

sizes_option = click.option(
    "--size",
    "sizes",
    callback=parse_sizes,
    default="1G",
    help="Bytes of the buffer: 64K, a list 1M,256M or a range 1K..1G.",
)
root_option = click.option(
    "--root", type=click.IntRange(0), default=0, help="Rank of the root."
)


def check_has_root(collective: str, root: int) -> None:
    """Refuse a root of a collective that has none."""
    if root and not collective_of(collective).rooted:
        raise click.UsageError(f"{collective} has no root; leave --root {root} out")


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
    help="YAML file with latencies and efficiencies for links that specify neither.",
)


def _parse_assumed(
    _context: object, _parameter: object, words: tuple[str, ...]
) -> dict[str, float]:
    """The assumed speeds by name, from words as pcie=63 or pcie=63,network=50."""
    given: dict[str, float] = {}
    for word in (part for text in words for part in text.split(",")):
        name, _, speed = word.partition("=")
        name = name.strip()
        if name in given:
            raise click.BadParameter(
                f"{name} is given twice: {given[name]:g} and {speed}"
            )
        try:
            given[name] = float(speed)
        except ValueError:
            raise click.BadParameter(
                f"{word!r} must be of the form name=GB/s, with one of the names "
                f"{', '.join(assumed.names())}"
            ) from None
    try:
        assumed.check(given)
    except TopologyError as error:
        raise click.BadParameter(str(error)) from None
    return given


assume_option = click.option(
    "--assume",
    multiple=True,
    metavar="NAME=GB/S",
    callback=_parse_assumed,
    help="Speed of links whose speed is unknown, as pcie=63 or network=50; repeatable.",
)


def _split(
    _context: object, _parameter: object, words: tuple[str, ...]
) -> tuple[str, ...]:
    """The names of words, each of which may be a list, as host0/nic0,host1/nic0."""
    return tuple(part.strip() for text in words for part in text.split(","))


def _parse_degraded(
    context: object, parameter: object, words: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    """The names with the remaining fractions, from words as gpu1-gpu5=0.5."""
    found = []
    for word in _split(context, parameter, words):
        name, _, text = word.rpartition("=")
        try:
            factor = float(text)
        except ValueError:
            raise click.BadParameter(
                f"{word!r} must be of the form NAME=FRACTION, as gpu1-gpu5=0.5"
            ) from None
        if not 0 < factor <= 1:
            raise click.BadParameter(
                f"{word}: the remaining fraction of the bandwidth must be above 0 and "
                f"at most 1; write --without {name} if it has failed"
            )
        found.append((name, factor))
    return tuple(found)


_without_option = click.option(
    "--without",
    multiple=True,
    metavar="NAME[,NAME...]",
    callback=_split,
    help="Failed links, devices or hosts, as gpu1-gpu5, host1/nic0 or host1; "
    "repeatable.",
)

_degraded_option = click.option(
    "--degraded",
    multiple=True,
    metavar="NAME=FRACTION[,...]",
    callback=_parse_degraded,
    help="Slow links, devices or hosts and the fraction of their bandwidth that "
    "remains, as gpu1-gpu5=0.5; repeatable.",
)


def faults_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options for failed and slow elements, passed as ``faults``."""

    @wraps(command)
    def with_faults(*words: Any, **options: Any) -> None:
        faults = Faults(options.pop("without"), options.pop("degraded"))
        command(*words, faults=faults, **options)

    return _without_option(_degraded_option(with_faults))


topology_option = click.option(
    "--topology",
    shell_complete=machines,
    help="Topology of the ranks: WHAT of collalgo topo.",
)
hosts_option = click.option("--hosts", type=click.IntRange(1), help="Number of hosts.")
nics_option = click.option(
    "--nics", type=click.IntRange(0), help="Number of NICs of each host."
)


def shape(options: dict[str, Any]) -> tuple[str, ...]:
    """The parameters of a topology that have options of their own, taken from them."""
    given = {name: options.pop(name) for name in ("hosts", "nics")}
    return tuple(f"{name}={n}" for name, n in given.items() if n is not None)


def split_what(
    words: tuple[str, ...], topology: str | None, options: dict[str, Any]
) -> tuple[str | None, tuple[str, ...]]:
    """The topology, of the option or the first word, if any, and its parameters.

    Those that have options of their own are taken from ``options``.
    """
    more = shape(options)
    if not words or "=" in words[0]:
        return topology, words + more
    if topology is not None:
        raise click.UsageError(
            f"{words[0]!r} must be of the form name=value: the topology is that of "
            f"--topology {topology}"
        )
    return words[0], words[1:] + more


def machine_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add a topology, as WHAT or as options, passed as ``what`` and ``parameters``."""

    @wraps(command)
    def with_machine(
        *others: Any, words: tuple[str, ...], topology: str | None, **options: Any
    ) -> None:
        what, parameters = split_what(words, topology, options)
        if what is None:
            raise click.UsageError(
                "which topology? pass as WHAT, or to --topology, a file, a name that "
                "collalgo topo list shows, or here"
            )
        command(*others, what=what, parameters=parameters, **options)

    added = topology_option(hosts_option(nics_option(with_machine)))
    return click.argument(
        "words",
        nargs=-1,
        metavar="WHAT [NAME=VALUE]...",
        shell_complete=machine_first,
    )(added)


def assuming(link_model: LinkModel, given: dict[str, float]) -> LinkModel:
    """A link model with other assumed speeds."""
    return replace(link_model, assumed={**link_model.assumed, **given})
