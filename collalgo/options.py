"""Options that several commands have."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

import click

from collalgo.collective import COLLECTIVES
from collalgo.loading import load, load_algorithms

T = TypeVar("T")


def load_named(name: str) -> ModuleType:
    """The module of a user's file."""
    return _taken(load, name)


def enter_named(name: str) -> None:
    """Put the algorithms of a user's file into the table."""
    _taken(load_algorithms, name)


def _taken(take: Callable[[str], T], name: str) -> T:
    """What is taken from a user's file; an error of usage if it cannot be."""
    try:
        return take(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _load_files(_context: object, _parameter: object, names: Sequence[str]) -> None:
    """Put the algorithms of the user's files into the table."""
    for name in names:
        enter_named(name)


load_option = click.option(
    "-l",
    "--load",
    multiple=True,
    expose_value=False,
    callback=_load_files,
    help="A file of algorithms: Python with @collalgo.algorithm, or XML of MSCCL.",
)

collective_option = click.option(
    "-c", "--collective", type=click.Choice(list(COLLECTIVES)), help="Only this one."
)
