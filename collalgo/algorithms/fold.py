"""Fold: a schedule for some numbers of ranks, as powers of two, serves any number.

The ranks beyond such a number pair up with others. In each pair one rank lends its data
to the other, which acts for both and hands the result back at the end.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

from collalgo.algorithms.radix import smooth
from collalgo.schedule import (
    Chunks,
    Group,
    ScheduleFunction,
    Step,
    Steps,
    Transfer,
    recv,
    recv_reduce,
    send,
)

#: What changes hands for a position of a group.
Loan: TypeAlias = Callable[[Group, int], Chunks]
Verb: TypeAlias = Callable[[int, Chunks], Transfer]


def whole(group: Group, _: int) -> Chunks:
    """Everything, as every rank has it before and after an allreduce."""
    return group.whole


def own_chunk(group: Group, position: int) -> Chunks:
    """A rank's own chunk, as after a reduce-scatter."""
    return group.chunk(position)


def nothing(_: Group, __: int) -> Chunks:
    """Nothing, as ranks other than the root have after a reduce."""
    return ()


def fold(
    lends: Loan, returns: Loan, acting: Callable[..., int] = smooth
) -> Callable[[ScheduleFunction], ScheduleFunction]:
    """Wrap a schedule that cannot run with every number of ranks.

    Parameters
    ----------
    lends, returns
        What a rank gives to the one that acts for it, and what it gets back.
    acting
        With how many of so many ranks the schedule runs, at least half of them. It
        gets the parameters of the schedule.
    """
    owned = own_chunk in (lends, returns)
    take = recv if lends is own_chunk else recv_reduce

    def decorate(schedule: ScheduleFunction) -> ScheduleFunction:
        @wraps(schedule)
        def folded(group: Group, **parameters: object) -> Steps:
            pairs = group.size - acting(group.size, **parameters)
            lends_now = group.rank < 2 * pairs and group.rank % 2 == 1
            actor = group.seen_from(group.rank - 1) if lends_now else group
            steps = schedule(core(actor, pairs, owned), **parameters)
            if pairs and lends is not nothing:
                yield hand_over(group, pairs, lends, send, take)
            if lends_now:
                yield from (() for _ in steps)
            else:
                yield from steps
            if pairs and returns is not nothing:
                yield hand_over(group, pairs, returns, recv, send)

        return folded

    return decorate


def hand_over(group: Group, pairs: int, loan: Loan, lender: Verb, actor: Verb) -> Step:
    """The step in which lenders use one verb and those who act for them another."""
    if group.rank >= 2 * pairs:
        return ()
    if group.rank % 2:
        return (lender(group.peer(group.rank - 1), loan(group, group.rank)),)
    return (actor(group.peer(group.rank + 1), loan(group, group.rank + 1)),)


def core(group: Group, pairs: int, owned: bool) -> Group:
    """The ranks that act, seen from one of them."""
    if pairs == 0:
        return group
    teams = [(2 * i, 2 * i + 1) for i in range(pairs)]
    singles = [(i,) for i in range(2 * pairs, group.size)]
    if owned:
        acting = group.merged([*teams, *singles])
    else:
        acting = group.subset([team[0] for team in (*teams, *singles)])
    assert acting is not None
    return acting
