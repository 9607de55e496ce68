"""Hierarchical: inside the hosts, then between them, whatever their sizes.

``hosts`` gives the number of ranks of each host, in the order of the ranks; by default
they are as many as their ranks, and the last one may be smaller.

>>> from collalgo import verify
>>> print(verify("hierarchical", size=10, collective="allreduce", hosts=(4, 4, 2)))
allreduce of 10 ranks: 6 steps, 11/3 n bytes, 28 links, same bits on every rank
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import isqrt

from collalgo.algorithms import k_nomial, linear, ring
from collalgo.schedule import (
    Group,
    ScheduleError,
    Steps,
    backwards,
    divide,
    doublings,
    lasting,
    recv,
    recv_reduce,
    send,
)


def teams_of(group: Group, hosts: Sequence[int] = ()) -> list[list[int]]:
    """The positions of each host; that of position 0 comes first, and it leads it."""
    side = isqrt(group.size)
    if not hosts:
        hosts = [min(side, group.size - i) for i in range(0, group.size, side)]
    if sum(hosts) != group.size or min(hosts) < 1:
        raise ScheduleError(
            f"hosts of {list(hosts)} ranks make {sum(hosts)} ranks but the group has "
            f"{group.size}; give every host at least one, and all together the size"
        )
    natural = sorted(range(group.size), key=group.peer)
    bounds = pairwise([0, *accumulate(hosts)])
    return sorted(sorted(natural[start:stop]) for start, stop in bounds)


def my_team(group: Group, teams: list[list[int]]) -> list[int]:
    """The positions of my host."""
    return next(team for team in teams if group.rank in team)


def allreduce(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Each rail, one rank of every host, sums one part of the data between hosts.

    There are as many rails as the smallest host has ranks.
    """
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    rails = min(map(len, teams))
    parts = divide(group.whole, rails)
    place = team.index(group.rank)
    mine = parts[place : place + 1]
    others = [group.peer(i) for i in team if i != group.rank]
    gives = zip(team, parts, strict=False)
    into_rails = (
        *(send(group.peer(i), part) for i, part in gives if i != group.rank),
        *(recv_reduce(peer, part) for part in mine for peer in others),
    )
    yield into_rails
    if mine:
        rail = _rail(group, [team[place] for team in teams]).sharing(*mine)
        yield from ring.allreduce(rail)
    else:
        yield from lasting(2 * len(teams) - 2)
    yield from backwards(iter([into_rails]), combine=False)


def _rail(group: Group, positions: Sequence[int]) -> Group:
    rail = group.subset(positions)
    assert rail is not None
    return rail


def broadcast(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """The root tells the leaders of the hosts, and they their hosts."""
    teams = teams_of(group, hosts)
    leaders = group.subset([team[0] for team in teams])
    rounds = len(doublings(len(teams)))
    yield from lasting(rounds, k_nomial.broadcast(leaders) if leaders else None)
    yield from k_nomial.broadcast(_rail(group, my_team(group, teams)))


def allgather(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Leaders gather the chunks of their hosts, swap them, and tell their hosts."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    leaders = group.merged(teams)
    yield from linear.gather(_in_team(group, team))
    yield from lasting(len(teams) - 1, ring.allgather(leaders) if leaders else None)
    yield from k_nomial.broadcast(_rail(group, team))


def _in_team(group: Group, team: Sequence[int]) -> Group:
    """A host whose ranks keep their chunks."""
    view = group.merged([(i,) for i in team])
    assert view is not None
    return view


def reduce_scatter(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Leaders sum everything of their hosts, then what goes to them, and scatter."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    leaders = group.merged(teams)
    rounds = len(doublings(max(map(len, teams))))
    inside = k_nomial.reduce(_rail(group, team))
    yield from lasting(rounds, inside)
    yield from lasting(
        len(teams) - 1, ring.reduce_scatter(leaders) if leaders else None
    )
    yield from linear.scatter(_in_team(group, team))


def multi_leader_allgather(
    group: Group, leaders: int = 2, hosts: Sequence[int] = ()
) -> Steps:
    """Each of several leaders of a host gathers, swaps and tells a part of it."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    count = min(leaders, *map(len, teams))
    place = team.index(group.rank)
    yield from linear.gather(_in_team(group, team[place % count :: count]))
    told = [[i for t in teams for i in t[leader::count]] for leader in range(count)]
    rail = group.merged([t[place::count] for t in teams]) if place < count else None
    yield from lasting(len(teams) - 1, ring.allgather(rail) if rail else None)
    mine = told[place : place + 1]
    yield (
        *(
            send(group.peer(i), group.chunks_of(sorted(known)))
            for known in mine
            for i in team
            if i != group.rank
        ),
        *(
            recv(group.peer(team[leader]), group.chunks_of(sorted(told[leader])))
            for leader in range(count)
            if leader != place
        ),
    )
