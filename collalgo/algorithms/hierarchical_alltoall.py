"""Hierarchical alltoall: fewer and larger messages between hosts.

>>> from collalgo import verify
>>> print(verify("two_step", size=16, collective="alltoall"))
alltoall of 16 ranks: 2 steps, 3/2 n bytes, 96 links, same bits on every rank
"""

from collections.abc import Iterable, Sequence

from collalgo.algorithms.hosts import my_team, teams_of
from collalgo.schedule import Chunks, Group, Steps, recv, send


def blocks(group: Group, sources: Iterable[int], targets: Iterable[int]) -> Chunks:
    """What all the sources have for all the targets."""
    targets = list(targets)
    return tuple(group.block(s, t) for s in sources for t in targets if s != t)


def two_step(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Inside a host to the rank on the target's rail, then straight to the target.

    A rank of a host is on the rail of all targets that have its place in theirs, or,
    if they have a higher one than the host has ranks, one that is equal to its place.
    """
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    me = group.rank
    rails = {
        i: [t for other in teams for t in other[place :: len(team)]]
        for place, i in enumerate(team)
    }
    peers = [i for i in team if i != me]
    yield (
        *(send(group.peer(i), blocks(group, [me], rails[i])) for i in peers),
        *(recv(group.peer(i), blocks(group, [i], rails[me])) for i in peers),
    )
    others = [other for other in teams if other is not team]
    place = team.index(me)
    yield (
        *(
            send(group.peer(t), blocks(group, team, [t]))
            for other in others
            for t in other[place :: len(team)]
        ),
        *(
            recv(
                group.peer(other[team.index(me) % len(other)]),
                blocks(group, other, [me]),
            )
            for other in others
        ),
    )


def three_step(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """To the leader of my host, from leader to leader, and to the target."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    outside = [i for other in teams if other is not team for i in other]
    leader, followers = team[0], team[1:]
    inside = [i for i in team if i != group.rank]
    swaps = (
        *(send(group.peer(i), blocks(group, [group.rank], [i])) for i in inside),
        *(recv(group.peer(i), blocks(group, [i], [group.rank])) for i in inside),
    )
    yield swaps
    if group.rank != leader:
        yield send(group.peer(leader), blocks(group, [group.rank], outside))
        yield ()
        yield recv(group.peer(leader), blocks(group, outside, [group.rank]))
        return
    yield tuple(recv(group.peer(i), blocks(group, [i], outside)) for i in followers)
    others = [other for other in teams if other is not team]
    yield (
        *(send(group.peer(other[0]), blocks(group, team, other)) for other in others),
        *(recv(group.peer(other[0]), blocks(group, other, team)) for other in others),
    )
    yield tuple(send(group.peer(i), blocks(group, outside, [i])) for i in followers)
