"""Fold: a schedule for a power of two of ranks serves any number of them.

The ranks beyond the power of two pair up with others. In each pair one rank lends
its data to the other, which acts for both and hands the result back at the end.
"""

from collections.abc import Callable
from functools import wraps

from collalgo.schedule import (
    Chunks,
    Group,
    ScheduleFunction,
    Steps,
    recv,
    recv_reduce,
    send,
)


def whole(group: Group, _: int) -> Chunks:
    """The result of an allreduce: everything, at every rank."""
    return group.whole


def own_chunk(group: Group, position: int) -> Chunks:
    """The result of a reduce-scatter: at each rank its own chunk."""
    return group.chunk(position)


def fold(
    result: Callable[[Group, int], Chunks],
) -> Callable[[ScheduleFunction], ScheduleFunction]:
    """Wrap a reduction that needs a power of two of ranks.

    Parameters
    ----------
    result
        The chunks that a position of the group has to have in the end.
    """

    def decorate(schedule: ScheduleFunction) -> ScheduleFunction:
        @wraps(schedule)
        def folded(group: Group) -> Steps:
            pairs = group.size - (1 << (group.size.bit_length() - 1))
            paired = group.rank < 2 * pairs
            lends = paired and group.rank % 2 == 1
            partner = group.rank - 1 if lends else group.rank + 1
            if lends:
                yield send(group.peer(partner), group.whole)
                yield recv(group.peer(partner), result(group, group.rank))
                return
            if paired:
                yield recv_reduce(group.peer(partner), group.whole)
            yield from schedule(core(group, pairs, result))
            if paired:
                yield send(group.peer(partner), result(group, partner))

        return folded

    return decorate


def core(group: Group, pairs: int, result: Callable[[Group, int], Chunks]) -> Group:
    """The power of two of ranks that act, seen from one of them."""
    teams = [(2 * i, 2 * i + 1) for i in range(pairs)]
    singles = [(i,) for i in range(2 * pairs, group.size)]
    leaders = [team[0] for team in (*teams, *singles)]
    if result is whole:
        acting = group.subset(leaders)
    else:
        acting = group.merged([*teams, *singles])
    assert acting is not None
    return acting
