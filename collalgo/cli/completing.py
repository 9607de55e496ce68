"""What a shell completes for arguments and options: names, and files.

What is complete is looked up when a shell asks, so that commands start fast.
"""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

#: What a shell offers for a word.
Offers = list[CompletionItem[str]]

#: The peers that ``bench --against`` installs, with ``all`` of them, and the MPI of the
#: job, which is compared alone.
PEERS = ("openmpi", "openmpi-sm", "openmpi-nocma", "mpich", "mpich-rg", "intelmpi")
RIVALS, ALONE = (*PEERS, "gloo"), ("mpi", "all")


def _names(names: Iterable[str], incomplete: str) -> Offers:
    """The names that begin as the word does."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def files(_context: click.Context, _parameter: object, incomplete: str) -> Offers:
    """The files, which the shell itself knows."""
    return [CompletionItem(incomplete, type="file")]


def machines(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> Offers:
    """The names of machines and fabrics, and files."""
    from collalgo.topology import presets

    found = _names([*presets.names(), "here"], incomplete)
    return found + files(context, parameter, incomplete)


def machine_first(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> Offers:
    """A machine as the first word, which a size may precede; then parameters."""
    before = context.params.get(str(parameter.name)) or ()
    if any(not word[:1].isdigit() for word in before) or context.params.get("topology"):
        return []
    return machines(context, parameter, incomplete)


def algorithms(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> Offers:
    """The names of algorithms, those of the collective if it is known, and files."""
    found = _names(_algorithms_of(context), incomplete)
    return found + files(context, parameter, incomplete)


def algorithm_lists(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> Offers:
    """The names of algorithms, separated by commas."""
    return _last_of_list(_algorithms_of(context), incomplete)


def _algorithms_of(context: click.Context) -> list[str]:
    """The names of the algorithms of the collectives that are given, or of all."""
    from collalgo.algorithms.catalogue import ALGORITHMS

    given = context.params
    wanted = {given.get("collective"), *(given.get("collectives") or ())} - {None}
    rows = [row for row in ALGORITHMS if not wanted or row.collective in wanted]
    return sorted({row.name for row in rows})


def _last_of_list(names: Iterable[str], incomplete: str) -> Offers:
    """The names for the last part of a list."""
    before, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{one.value}") for one in _names(names, last)
    ]


def policies(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> Offers:
    """The libraries whose decisions are known, and rules files."""
    from collalgo.selection import overrides

    found = _names(overrides.PEERS, incomplete)
    return found + files(context, parameter, incomplete)


def rivals(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> Offers:
    """The libraries to compare with, separated by commas."""
    alone = () if "," in incomplete else ALONE
    return _last_of_list((*RIVALS, *alone), incomplete)
