"""Recursive doubling and multiplying: whole vectors over growing distances.

By two it is recursive doubling (Thakur et al. 2005), by more ranks at once recursive
multiplying (Ruefenacht et al. 2017); other numbers of ranks are a product of several
factors, or fold.

>>> from collalgo import verify
>>> print(verify("recursive_doubling", size=8, collective="allreduce"))
allreduce of 8 ranks: 3 steps, 3 n bytes, 24 links, same bits on every rank
>>> print(verify("recursive_multiplying", size=12, collective="allreduce"))
allreduce of 12 ranks: 2 steps, 5 n bytes, 60 links, same bits on every rank
"""

from collections.abc import Mapping, Sequence
from typing import Any

from collalgo.algorithms.fold import fold, whole
from collalgo.algorithms.radix import factors, smooth
from collalgo.schedule import Group, Steps, recv_reduce, send


@fold(whole, whole, smooth)
def allreduce(group: Group, radix: int = 2) -> Steps:
    """Each exchange among k ranks multiplies the number of summed vectors by k."""
    distance = 1
    for factor in factors(group.size, radix):
        digit = group.rank // distance % factor
        first = group.rank - digit * distance
        peers = [group.peer(first + i * distance) for i in range(factor) if i != digit]
        yield (
            *(send(peer, group.whole) for peer in peers),
            *(recv_reduce(peer, group.whole) for peer in peers),
        )
        distance *= factor


def unfit(size: int, given: Mapping[str, Any]) -> str | None:
    """The reason why an order of ranks gives sums with different bits, or None.

    The sums of three or more ranks are combined in the order of the ranks, so all
    groups with the same sums must have them in the same order.
    """
    order, radix = given.get("order"), given.get("radix", 2)
    if order is None:
        return None
    acting = smooth(size, radix)
    pairs = size - acting
    actors = [*order[0 : 2 * pairs : 2], *order[2 * pairs :]]
    distance = 1
    for factor in factors(acting, radix):
        for first in range(0, acting, distance * factor):
            if factor > 2 and not alike(actors[first:], distance, factor):
                return (
                    "gives the ranks different bits in this order, as its swaps "
                    f"among {factor} ranks would combine the same sums in different "
                    "orders; pass radix=2 or another order"
                )
        distance *= factor
    return None


def alike(ranks: Sequence[int], distance: int, factor: int) -> bool:
    """Whether all groups of ranks that exchange the same sums combine them alike.

    The first two of a group may come in any order.
    """
    found = set()
    for first in range(distance):
        group = ranks[first : first + distance * factor : distance]
        one, two, *others = sorted(range(factor), key=group.__getitem__)
        found.add((min(one, two), max(one, two), *others))
    return len(found) == 1


def barrier(group: Group) -> Steps:
    """An allreduce of tokens by recursive doubling."""
    yield from allreduce(group.tokens)
