"""The arguments and options of commands on a machine, and how they load it."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from collalgo.base.console import patience
from collalgo.base.input_files import special
from collalgo.base.units import SIZE, UNIT
from collalgo.cli.options import parse_sizes
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError, TopologyError
from collalgo.schedule.collective import collective_of
from collalgo.topology import assumed, presets
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import Topology

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
    given = {}
    for word in (part for text in words for part in text.split(",")):
        name, _, speed = word.partition("=")
        try:
            given[name.strip()] = float(speed)
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


def _parse_degraded(
    _context: object, _parameter: object, words: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    """The names with the remaining fractions, from words as gpu1-gpu5=0.5."""
    found = []
    for word in words:
        name, _, factor = word.rpartition("=")
        try:
            found.append((name, float(factor)))
        except ValueError:
            raise click.BadParameter(
                f"{word!r} must be of the form NAME=FRACTION, as gpu1-gpu5=0.5"
            ) from None
    return tuple(found)


_without_option = click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Failed link, device or host, as gpu1-gpu5, host1/nic0 or host1; repeatable.",
)

_degraded_option = click.option(
    "--degraded",
    multiple=True,
    metavar="NAME=FRACTION",
    callback=_parse_degraded,
    help="Slow link, device or host and the fraction of its bandwidth that remains, "
    "as gpu1-gpu5=0.5; repeatable.",
)


def faults_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options for failed and slow elements, passed as ``faults``."""

    @wraps(command)
    def with_faults(*words: Any, **options: Any) -> None:
        faults = Faults(options.pop("without"), options.pop("degraded"))
        command(*words, faults=faults, **options)

    return _without_option(_degraded_option(with_faults))


topology_option = click.option(
    "--topology", help="Topology of the ranks: WHAT of collalgo topo."
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
    return click.argument("words", nargs=-1, metavar="WHAT [NAME=VALUE]...")(added)


def assuming(link_model: LinkModel, given: dict[str, float]) -> LinkModel:
    """A link model with other assumed speeds."""
    return replace(link_model, assumed={**link_model.assumed, **given})


#: Beyond this number of hosts one host represents all, for up to a million ranks.
MOST_HOSTS = 256


def load_machine(
    what: str, parameters: tuple[str, ...], faults: Faults = WHOLE
) -> Topology | UniformCluster:
    """Load a file or a named machine; many whole hosts become a uniform cluster."""
    if what in presets.machine_names() and faults == WHOLE:
        given = named(parameters)
        hosts = given.get("hosts", 1)
        if isinstance(hosts, int) and hosts > MOST_HOSTS:
            return UniformCluster.load(what, **given)
    return load(what, parameters, faults)


def with_and_without(
    faults: Faults, what: str, parameters: tuple[str, ...]
) -> tuple[Topology | UniformCluster, Topology | UniformCluster]:
    """A machine with its faults, and without, read once, as it may be a stream."""
    try:
        if faults == WHOLE:
            found = load_machine(what, parameters)
            return found, found
        whole = load(what, parameters)
        return faults.of(whole), whole
    except CollalgoError as error:
        raise click.ClickException(str(error)) from error


def load(
    what: str, parameters: tuple[str, ...] = (), faults: Faults = WHOLE
) -> Topology:
    """Load a topology given by a file, a name or "here"; with faults, if any."""
    try:
        with patience(f"reading {what}"):
            return faults.of(_whole(what, named(parameters)))
    except (CollalgoError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _whole(what: str, parameters: dict[str, Any]) -> Topology:
    """The topology of a file, a name or "here"."""
    if what in presets.names():
        return Topology.load(what, **parameters)
    if what == "here":
        return presets.several(Topology.detect(), **parameters)
    _check_file(what)
    return Topology.read(what, **parameters)


def _check_file(what: str) -> None:
    try:
        special(what)
    except OSError:
        raise TopologyError(
            f"there is no file and no machine or fabric {what!r}; "
            f"the names are {', '.join(presets.names())}"
        ) from None


def named(words: tuple[str, ...]) -> dict[str, Any]:
    """Parse the parameters of a machine or fabric, each given once."""
    found: dict[str, Any] = {}
    for name, value in map(_parameter, words):
        if name in found:
            raise click.BadParameter(
                f"{name} is given twice: {found[name]} and {value}"
            )
        found[name] = value
    return found


def _number(text: str) -> int | float:
    """A number; 1e3 is the integer 1000, as is 1000, and 25.0 a float."""
    if "e" in text and float(text).is_integer():
        return int(float(text))
    return float(text) if "." in text or "e" in text else int(text)


def _parameter(word: str) -> tuple[str, Any]:
    """Parse a parameter: a number, a word, or a list as 4x4, 4,4 or (4, 4)."""
    name, equals, value = word.partition("=")
    if not equals and (SIZE.fullmatch(word) or UNIT.fullmatch(word)):
        raise click.BadParameter(
            f"{word!r} is not a parameter; write sizes as --size 64M"
        )
    if not equals:
        raise click.BadParameter(f"{word!r} must be of the form name=value")
    if value in ("true", "false"):
        return name, value == "true"
    if presets.JOINING.get(name) is str:
        return name, value
    parts = value.strip("()").replace("x", ",").split(",")
    try:
        numbers = list(map(_number, parts))
    except ValueError:
        raise click.BadParameter(f"{word!r}: {value!r} is not a number") from None
    return name, tuple(numbers) if len(numbers) > 1 or name == "dims" else numbers[0]
