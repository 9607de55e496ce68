"""Hosts: which ranks run on the same one."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import isqrt
from typing import TypeAlias

from collalgo.schedule import Group, ScheduleError

#: The positions of the ranks of a host.
Team: TypeAlias = tuple[int, ...]


def teams_of(group: Group, hosts: Sequence[int] = ()) -> tuple[Team, ...]:
    """The positions of each host; the host of position 0 first, led by it."""
    counts = tuple(hosts)
    return group.once(("teams", counts), lambda: _teams(group, counts))


def _teams(group: Group, hosts: Sequence[int]) -> tuple[Team, ...]:
    side = isqrt(group.size)
    if not hosts:
        hosts = [min(side, group.size - i) for i in range(0, group.size, side)]
    if sum(hosts) != group.size or min(hosts) < 1:
        raise ScheduleError(
            f"hosts {list(hosts)} have {sum(hosts)} ranks but the group has "
            f"{group.size}; pass the ranks of each host, at least 1, with that sum"
        )
    natural = sorted(range(group.size), key=group.peer)
    bounds = pairwise([0, *accumulate(hosts)])
    return tuple(sorted(tuple(sorted(natural[i:j])) for i, j in bounds))


def my_team(group: Group, teams: Sequence[Team]) -> Team:
    """The positions of my host."""
    return next(team for team in teams if group.rank in team)


def subset_of(group: Group, positions: Sequence[int]) -> Group:
    """A subset of the ranks that includes this one, sharing all chunks."""
    rail = group.subset(positions)
    assert rail is not None
    return rail


def owners_of(group: Group, team: Sequence[int]) -> Group:
    """A host whose ranks keep their chunks."""
    view = group.merged([(i,) for i in team])
    assert view is not None
    return view
