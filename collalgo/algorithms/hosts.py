"""Hosts: which ranks run on the same one."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import isqrt

from collalgo.schedule import Group, ScheduleError


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


def subset_of(group: Group, positions: Sequence[int]) -> Group:
    """Some ranks, of which I am one, sharing everything anew."""
    rail = group.subset(positions)
    assert rail is not None
    return rail


def owners_of(group: Group, team: Sequence[int]) -> Group:
    """A host whose ranks keep their chunks."""
    view = group.merged([(i,) for i in team])
    assert view is not None
    return view
