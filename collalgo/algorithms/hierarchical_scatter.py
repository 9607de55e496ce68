"""Hierarchical scatter and gather: all NICs of the root's host carry a part."""

from collections.abc import Sequence

from collalgo.algorithms.hosts import teams_of
from collalgo.schedule import Group, Steps, recv, reverse, send


def scatter(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Every rank of the root's host gets and sends on the chunks of some other ranks.

    So each of its NICs carries a part of what leaves the host.
    """
    first, *others = teams_of(group, hosts)
    told: dict[int, list[int]] = {rank: [rank] for rank in first}
    for team in others:
        for place, rank in enumerate(team):
            told[first[place % len(first)]].append(rank)
    if group.rank == 0:
        yield tuple(send(group.peer(i), group.chunks_of(told[i])) for i in first[1:])
    else:
        mine = told.get(group.rank)
        yield recv(group.peer(0), group.chunks_of(mine)) if mine else ()
    if group.rank in told:
        beyond = told[group.rank][1:]
        yield tuple(send(group.peer(i), group.chunk(i)) for i in beyond)
    else:
        leader = next(leader for leader, ranks in told.items() if group.rank in ranks)
        yield recv(group.peer(leader), group.chunk(group.rank))


def gather(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """The reversed scatter."""
    yield from reverse(scatter(group, hosts), combine=False)
