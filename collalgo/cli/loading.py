"""How commands load the machine that is given, and its parameters."""

from collections.abc import Sequence
from typing import Any

import click

from collalgo.base.console import patience
from collalgo.base.input_files import special
from collalgo.base.units import SIZE, UNIT, counted
from collalgo.base.wrapping import wrapped
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError, TopologyError
from collalgo.topology import presets
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import Topology

#: The most warnings of a topology that a command prints which does not list them.
MOST_WARNINGS = 10

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
    what: str,
    parameters: tuple[str, ...] = (),
    faults: Faults = WHOLE,
    *,
    warns: bool = True,
) -> Topology:
    """Load a topology given by a file, a name or "here"; with faults, if any.

    Its warnings are printed on standard error, unless the command shows them itself.
    """
    try:
        with patience(f"reading {what}"):
            found = faults.of(_whole(what, named(parameters)))
    except (CollalgoError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if warns:
        _print_warnings(what, found.warnings)
    return found


def _print_warnings(what: str, warnings: Sequence[str]) -> None:
    """Print the first warnings of a topology, and the number of the others."""
    for text in warnings[:MOST_WARNINGS]:
        click.echo(wrapped(f"warning: {text}", stderr=True), err=True)
    if others := len(warnings[MOST_WARNINGS:]):
        text = f"{counted(others, 'more warning')}; collalgo topo validate lists them"
        click.echo(wrapped(f"{what}: {text}", stderr=True), err=True)


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
