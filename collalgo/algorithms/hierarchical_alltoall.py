"""Hierarchical alltoall: fewer and larger messages between hosts.

>>> from collalgo import verify
>>> print(verify("two_step", size=16, collective="alltoall"))
alltoall of 16 ranks: 2 steps, 3/2 n bytes, 96 links, same bits on every rank
"""

from collections.abc import Iterable, Sequence

from collalgo.algorithms.hosts import my_team, teams_of
from collalgo.schedule import Chunks, Group, Steps, Transfer, recv, send


def blocks(group: Group, sources: Iterable[int], targets: Iterable[int]) -> Chunks:
    """The blocks of all sources for all targets."""
    targets = list(targets)
    return tuple(group.block(s, t) for s in sources for t in targets if s != t)


def two_step(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Inside a host to the rank on the target's rail, then straight to the target.

    A rank is on the rail of all targets whose index in their host is its own, modulo
    the number of ranks of its host.
    """
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    me, index = group.rank, team.index(group.rank)
    rails = {
        i: [t for other in teams for t in other[k :: len(team)]]
        for k, i in enumerate(team)
    }
    peers = [i for i in team if i != me]
    yield (
        *(send(group.peer(i), blocks(group, [me], rails[i])) for i in peers),
        *(recv(group.peer(i), blocks(group, [i], rails[me])) for i in peers),
    )
    others = [other for other in teams if other is not team]
    targets = [t for other in others for t in other[index :: len(team)]]
    sources = [(other[index % len(other)], other) for other in others]
    yield (
        *(send(group.peer(t), blocks(group, team, [t])) for t in targets),
        *(recv(group.peer(s), blocks(group, other, [me])) for s, other in sources),
    )


def inside(group: Group, team: Sequence[int]) -> tuple[Transfer, ...]:
    """The direct exchange of blocks between the ranks of a host."""
    me, peers = group.rank, [i for i in team if i != group.rank]
    return (
        *(send(group.peer(i), blocks(group, [me], [i])) for i in peers),
        *(recv(group.peer(i), blocks(group, [i], [me])) for i in peers),
    )


def three_step(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """To the leader of my host, from leader to leader, and to the target."""
    teams = teams_of(group, hosts)
    team = my_team(group, teams)
    outside = [i for other in teams if other is not team for i in other]
    leader, followers = team[0], team[1:]
    yield inside(group, team)
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
