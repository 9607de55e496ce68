"""The sizes of the calls that a command prices."""

import click
from click.core import ParameterSource

from collalgo.cli.machine import check_has_root
from collalgo.schedule.collective import collective_of


def sizes_of_call(collective: str, sizes: list[int], root: int) -> list[int]:
    """The sizes to price, after the check of the root; see :func:`sizes_to_price`."""
    check_has_root(collective, root)
    return sizes_to_price(collective, sizes, given=size_is_given())


def size_is_given() -> bool:
    """Whether the user gives the sizes of the present command."""
    source = click.get_current_context().get_parameter_source("sizes")
    return source is not ParameterSource.DEFAULT


def sizes_to_price(collective: str, sizes: list[int], *, given: bool) -> list[int]:
    """The sizes, but of a collective without data one of 0 bytes.

    ``given`` is whether they are the user's, who may give none above 0 then.
    """
    if collective_of(collective).carries_data:
        return sizes
    if given and any(sizes):
        raise click.UsageError(f"{collective} carries no data; leave the size out")
    return [0]
