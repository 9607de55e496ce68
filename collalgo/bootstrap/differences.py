"""The comparison of the calls that ranks have made, when one of them leaves.

A call that sends only returns before the others have made it. So a rank that leaves
compares its calls with those that the others have made so far: of two ranks, the one
that leaves later sees all calls of both.
"""

from typing import Any, NamedTuple

from collalgo._kernels.engine.transport.shared_memory import SharedMemory


class CallsMade(NamedTuple):
    """The calls that a rank has made.

    Attributes
    ----------
    rank : int
        The rank in its world.
    number : int
        The number of its calls.
    last : list of dict
        The records of the last of them, in order.
    is_final : bool
        Whether it has left normally, and makes no more calls.
    """

    rank: int
    number: int
    last: list[dict[str, Any]]
    is_final: bool


def difference(mine: CallsMade, theirs: CallsMade) -> dict[str, Any] | None:
    """The first difference between the calls of two ranks, as a failure; or None."""
    its = {call["sequence"]: call for call in theirs.last}
    for call in mine.last:
        if differ(call, other := its.get(call["sequence"], call)):
            return _failure("mismatch", mine, theirs, call, other)
    if mine.number == theirs.number or not (mine.is_final and theirs.is_final):
        return None
    last = [each.last[-1] if each.last else None for each in (mine, theirs)]
    return _failure("number", mine, theirs, *last)


def differ(call: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two calls have the same sequence number, but are different."""
    if call["sequence"] != other["sequence"]:
        return False
    return bool(call["fingerprint"] != other["fingerprint"])


def difference_on_host(shared: SharedMemory) -> dict[str, Any] | None:
    """The same with the first rank of this host whose calls differ."""
    place = shared.differing()
    if place is None:
        return None
    departure = shared.departure(place)
    in_order = shared.failure() is None
    return difference(
        calls_of(shared, shared.rank, is_final=in_order),
        calls_of(shared, place, is_final=departure is not None and departure[0]),
    )


def calls_of(shared: SharedMemory, place: int, *, is_final: bool) -> CallsMade:
    """The calls that a rank of this host has made."""
    member, number = shared.members[place], shared.entered(place)
    return CallsMade(member, number, shared.calls(place), is_final)


def _failure(
    kind: str, mine: CallsMade, theirs: CallsMade, ours: Any, other: Any
) -> dict[str, Any]:
    return {
        "kind": kind,
        "rank": mine.rank,
        "culprit": theirs.rank,
        "sequence": ours["sequence"] if kind == "mismatch" else mine.number,
        "mine": ours,
        "theirs": other,
        "last_calls": {str(mine.rank): ours, str(theirs.rank): other},
    }
