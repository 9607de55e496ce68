"""Fold: extend a schedule for some numbers of ranks, as powers of two, to any number.

The ranks in excess of such a number form pairs with others. In each pair, one rank
sends its data to the other, its proxy, which acts for both and sends the result back.
"""

from collections.abc import Callable
from functools import partial, wraps
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

#: The chunks of a position that a pair transfers.
Transferred: TypeAlias = Callable[[Group, int], Chunks]
Verb: TypeAlias = Callable[[int, Chunks], Transfer]


def whole(group: Group, _: int) -> Chunks:
    """The whole buffer, as on every rank before and after an allreduce."""
    return group.whole


def own_chunk(group: Group, position: int) -> Chunks:
    """A rank's own chunk, as after a reduce-scatter."""
    return group.chunk(position)


def nothing(_: Group, __: int) -> Chunks:
    """No chunks, as on ranks other than the root after a reduce."""
    return ()


def fold(
    given: Transferred, returned: Transferred, acting: Callable[..., int] = smooth
) -> Callable[[ScheduleFunction], ScheduleFunction]:
    """Extend a schedule to any number of ranks: excess ranks act through proxies.

    Parameters
    ----------
    given, returned
        The chunks that a rank sends to its proxy, and receives back.
    acting
        The number of ranks that run the schedule, from the number of all ranks and the
        parameters of the schedule; at least half of them.
    """
    owned = own_chunk in (given, returned)
    take = recv if given is own_chunk else recv_reduce

    def decorate(schedule: ScheduleFunction) -> ScheduleFunction:
        @wraps(schedule)
        def folded(group: Group, **parameters: object) -> Steps:
            pairs = group.size - acting(group.size, **parameters)
            has_proxy = group.rank < 2 * pairs and group.rank % 2 == 1
            proxy = group.seen_from(group.rank - 1) if has_proxy else group
            steps = schedule(core(proxy, pairs, owned), **parameters)
            if pairs and given is not nothing:
                yield between_pairs(group, pairs, given, send, take)
            if has_proxy:
                yield from (() for _ in steps)
            else:
                yield from steps
            if pairs and returned is not nothing:
                yield between_pairs(group, pairs, returned, recv, send)

        return folded

    return decorate


def between_pairs(
    group: Group, pairs: int, chunks: Transferred, verb: Verb, verb_of_proxy: Verb
) -> Step:
    """The step between the ranks that act through proxies, and their proxies."""
    if group.rank >= 2 * pairs:
        return ()
    if group.rank % 2:
        return (verb(group.peer(group.rank - 1), chunks(group, group.rank)),)
    return (verb_of_proxy(group.peer(group.rank + 1), chunks(group, group.rank + 1)),)


def core(group: Group, pairs: int, owned: bool) -> Group:
    """The group of the ranks that run the schedule, seen from one of them."""
    if pairs == 0:
        return group
    make = partial(_acting, group.seen_from(0), pairs, owned)
    acting = group.once(("core", pairs, owned), make)  # in linear time for all ranks
    single = group.rank - pairs
    return acting.seen_from(single if single >= pairs else group.rank // 2)


def _acting(group: Group, pairs: int, owned: bool) -> Group:
    """The ranks that run the schedule, seen from the first."""
    teams = [(2 * i, 2 * i + 1) for i in range(pairs)]
    singles = [(i,) for i in range(2 * pairs, group.size)]
    if owned:
        acting = group.merged([*teams, *singles])
    else:
        acting = group.subset([team[0] for team in (*teams, *singles)])
    assert acting is not None
    return acting
