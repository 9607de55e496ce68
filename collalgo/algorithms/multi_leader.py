"""Multi-leader: several ranks of each host exchange its data with the other hosts."""

from collections.abc import Sequence

from collalgo.algorithms import linear, ring
from collalgo.algorithms.hosts import my_team, owners_of, teams_of
from collalgo.schedule import Group, Steps, pad, recv, send


def allgather(group: Group, leaders: int = 2, hosts: Sequence[int] = ()) -> Steps:
    """Several leaders of a host each gather, exchange and broadcast a part."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    count = min(leaders, *map(len, teams))
    place = team.index(group.rank)
    yield from linear.gather(owners_of(group, team[place % count :: count]))
    told = [[i for t in teams for i in t[leader::count]] for leader in range(count)]
    rail = group.merged([t[place::count] for t in teams]) if place < count else None
    around = ring.allgather(ring.opposed(rail, place)) if rail else None
    yield from pad(len(teams) - 1, around)
    followers = [i for i in team if i != group.rank] if place < count else []
    yield (
        *(send(group.peer(i), group.chunks_of(told[place])) for i in followers),
        *(
            recv(group.peer(team[leader]), group.chunks_of(told[leader]))
            for leader in range(count)
            if leader != place
        ),
    )
