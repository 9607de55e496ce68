"""Striped chains: along all hosts on every rail, in alternating directions.

Of hosts with several NICs each NIC carries a stripe of the data, and of hosts in a ring
all cables are used in the directions that lead away from the root. ``hosts`` is that of
:mod:`collalgo.algorithms.hierarchical`.

>>> from collalgo import verify
>>> print(verify("striped_chains", size=6, collective="broadcast", hosts=(2, 2, 2)))
broadcast of 6 ranks: 7 steps, 15/8 n bytes, 9 links, same bits on every rank
"""

from collections.abc import Sequence

from collalgo.algorithms import tree
from collalgo.algorithms.hosts import Team, teams_of
from collalgo.schedule import Group, Steps, together


def parents(teams: Sequence[Team], stripe: int) -> tuple[int | None, ...]:
    """The parent of each position; that of a leader is the leader of the host before.

    The others hear from the leader of their host.
    """
    first, *others = teams
    heard: dict[int, int | None] = {}
    before = 0
    for team in (first, *(others if stripe % 2 == 0 else reversed(others))):
        leader = team[stripe % len(team)]
        heard |= dict.fromkeys(team, leader)
        heard[leader] = before
        before = leader
    heard[0] = None
    return tuple(heard[i] for i in range(len(heard)))


def stripes(group: Group, hosts: Sequence[int]) -> list[tuple[Group, list[tree.Round]]]:
    """The stripes of the data, each with the shape of its tree."""
    teams = teams_of(group, hosts)
    count = max(2, min(map(len, teams)))
    shapes = group.once(
        ("stripes", teams),
        lambda: [tree.of_parents(parents(teams, i)) for i in range(count)],
    )
    return tree.shared(group, shapes)


def broadcast(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Each stripe goes from host to host, and there from one rank to the others."""
    yield from together(*(tree.broadcast(*stripe) for stripe in stripes(group, hosts)))


def reduce(group: Group, hosts: Sequence[int] = ()) -> Steps:
    """Each stripe is summed in every host, and then from host to host."""
    yield from together(*(tree.reduce(*stripe) for stripe in stripes(group, hosts)))
