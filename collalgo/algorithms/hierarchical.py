"""Hierarchical: inside the hosts, then between them, whatever their sizes.

``hosts`` gives the number of ranks of each host, in the order of the ranks; by default
they are as many as their ranks, and the last one may be smaller.

>>> from collalgo import verify
>>> print(verify("hierarchical", size=10, collective="allreduce", hosts=(4, 4, 2)))
allreduce of 10 ranks: 6 steps, 11/3 n bytes, 28 links, same bits on every rank
"""

from collections.abc import Sequence

from collalgo.algorithms import k_nomial, linear, ring
from collalgo.algorithms.hosts import my_team, owners_of, subset_of, teams_of
from collalgo.schedule import (
    Group,
    Steps,
    as_step,
    divide,
    doublings,
    pad,
    recv_reduce,
    reverse,
    send,
)


def allreduce(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Each rail, with one rank of every host, sums one part of the data between hosts.

    There are as many rails as the smallest host has ranks; every other one runs
    reverse, so that hosts on a ring use it both ways.
    """
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    rails = min(map(len, teams))
    parts = divide(group.whole, rails)
    place = team.index(group.rank)
    others = [i for i in team if i != group.rank]
    gives = zip(team, parts, strict=False)
    into_rails = [send(group.peer(i), part) for i, part in gives if i in others]
    if place < rails:
        into_rails += [recv_reduce(group.peer(i), parts[place]) for i in others]
    yield tuple(into_rails)
    if place < rails:
        rail = subset_of(group, [team[place] for team in teams])
        yield from ring.allreduce(ring.opposed(rail.sharing(parts[place]), place))
    else:
        yield from pad(2 * len(teams) - 2)
    yield from reverse(iter([tuple(into_rails)]), combine=False)


def two_level_allreduce(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Trees inside the hosts reduce to their leaders and back; a ring joins these."""
    teams = teams_of(group, hosts)
    leaders = group.subset([team[0] for team in teams])
    rounds = len(doublings(max(map(len, teams))))
    inside = k_nomial.reduce(subset_of(group, my_team(group, teams)))
    inwards = [*map(as_step, pad(rounds, inside))]
    yield from inwards
    yield from pad(2 * len(teams) - 2, ring.allreduce(leaders) if leaders else None)
    yield from reverse(iter(inwards), combine=False)


def broadcast(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """From the root to the leaders of the hosts, then inside each host."""
    teams = teams_of(group, hosts)
    leaders = group.subset([team[0] for team in teams])
    rounds = len(doublings(len(teams)))
    yield from pad(rounds, k_nomial.broadcast(leaders) if leaders else None)
    yield from k_nomial.broadcast(subset_of(group, my_team(group, teams)))


def allgather(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Leaders gather the chunks of their hosts, exchange them, and broadcast inside."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    leaders = group.merged(teams)
    yield from linear.gather(owners_of(group, team))
    yield from pad(len(teams) - 1, ring.allgather(leaders) if leaders else None)
    yield from k_nomial.broadcast(subset_of(group, team))


def reduce_scatter(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Leaders reduce inside their hosts, then among each other, and scatter inside."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    leaders = group.merged(teams)
    rounds = len(doublings(max(map(len, teams))))
    inside = k_nomial.reduce(subset_of(group, team))
    yield from pad(rounds, inside)
    yield from pad(len(teams) - 1, ring.reduce_scatter(leaders) if leaders else None)
    yield from linear.scatter(owners_of(group, team))
