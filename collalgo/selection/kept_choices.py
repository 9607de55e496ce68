"""Choices kept on disk, so that the first call of a later run prices nothing.

A choice depends on the code that prices, on the candidates, and on the figures of the
host or of the topology. All of these are in its key, so that it is never out of date.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base import code_identity, disk_cache
from collalgo.errors import CollalgoError
from collalgo.selection.prices import Break, Choices, Priced

#: The subfolder, and the format of its files.
KIND, FORMAT = "choices", "choices/1"

#: The subfolder of choices for one size only: those for all sizes stay when many of
#: these are kept.
OF_ONE_SIZE = "choices_of_one_size"

#: Gives the candidate of an algorithm in an order of ranks, to be priced when its
#: price is read; raises ValueError for an order that the ranks do not have.
Revive = Callable[[Algorithm, str], Priced]

#: Gives the row of a name of a collective.
Find = Callable[[str, str], Algorithm]


def kept(
    ranks: str,
    rows: Sequence[Algorithm],
    lookup: Find,
    revive: Revive,
    compute: Callable[[], Choices],
    only: int | None = None,
) -> Choices:
    """The choices among some rows: from disk, or else computed and kept there.

    Choices among rows of users are always computed, since their code may change.

    Parameters
    ----------
    ranks
        The inputs of prices, except the rows and the code.
    rows
        The algorithms of a collective, among them all that can run.
    lookup
        Gives the row of a name; raises CollalgoError for one that cannot run.
    revive
        Gives the candidate of a row in an order of ranks.
    compute
        Computes the choices.
    only
        The only size that the choices are for; those for all sizes serve it, too.
    """
    if not rows or any(row.unproved for row in rows):
        return compute()
    names = [row.name for row in rows]
    key = repr((FORMAT, code_identity.of_code(), rows[0].collective, names, ranks))
    find = partial(lookup, rows[0].collective)
    found, kind = _recalled(KIND, key, find, revive), KIND
    if not found and only is not None:
        kind, key = OF_ONE_SIZE, repr((key, only))
        found = _recalled(kind, key, find, revive)
    if found:
        return found
    with disk_cache.turn(kind, key):
        found = _recalled(kind, key, find, revive)
        if not found:
            found = compute()
            disk_cache.keep(kind, key, _written(found))
    return found


def _recalled(
    kind: str, key: str, find: Callable[[str], Algorithm], revive: Revive
) -> Choices | None:
    """The choices that are kept under a key, if any."""
    text = disk_cache.recall(kind, key)
    return _read(text, find, revive) if text else None


def _written(choices: Choices) -> str:
    """Choices as text."""
    lines = [(at, one.row.name, one.order) for at, one in choices.breaks]
    return json.dumps(lines)


def _read(
    text: str, find: Callable[[str], Algorithm], revive: Revive
) -> Choices | None:
    """The choices of a text; None if they are not of these rows."""
    breaks = []
    try:
        for at, name, order in json.loads(text):
            breaks.append(Break(float(at), revive(find(name), str(order))))
    except (AttributeError, CollalgoError, TypeError, ValueError, RecursionError):
        return None
    borders = [one.nbytes for one in breaks]
    is_whole = borders[:1] == [0.0] and borders == sorted(borders)
    return Choices(breaks) if is_whole else None
