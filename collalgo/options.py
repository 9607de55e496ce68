"""Options that several commands have."""

from collections.abc import Sequence
from types import ModuleType

import click

from collalgo.collective import COLLECTIVES
from collalgo.loading import load


def load_named(name: str) -> ModuleType:
    """The module of a user's file."""
    try:
        return load(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _load_files(_context: object, _parameter: object, names: Sequence[str]) -> None:
    """Run the files of the user whose algorithms are to be in the table."""
    for name in names:
        load_named(name)


load_option = click.option(
    "-l",
    "--load",
    multiple=True,
    expose_value=False,
    callback=_load_files,
    help="A file whose @collalgo.algorithm functions are to be known.",
)

collective_option = click.option(
    "-c", "--collective", type=click.Choice(list(COLLECTIVES)), help="Only this one."
)
