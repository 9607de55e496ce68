"""Errors for failures: which rank, what with both values, what to do."""

from collections.abc import Callable
from typing import Any

from collalgo.comm.call_text import (
    EXCHANGE,
    ON_DEVICES,
    UNEVEN,
    call_name,
    call_text,
    differing_field,
    dtype_passed,
    elements,
    group_text,
)
from collalgo.comm.differing import (
    differing_arrays,
    differing_beyond,
    differing_counts,
    or_skipped,
)
from collalgo.comm.reasons import CLOSED, OF_DEFAULT
from collalgo.engine.reduction import op_text
from collalgo.errors import (
    CollalgoError,
    CollectiveTimeout,
    CommunicatorRevoked,
    MismatchError,
    PeerFailed,
)

#: The advice for ranks that make different calls.
SAME_CALLS = "every rank must make the same calls in the same order"

#: The reductions that take a count for each rank.
UNEVEN_SUMS = ("reduce_scatter",)


def error_of(
    rank: int, failure: dict[str, Any], pair: tuple[int, int] | None = None
) -> CollalgoError:
    """The error that a rank raises for a failure of its world.

    The world of the messages of a ``pair`` of ranks names these.
    """
    if pair is not None:
        rank, failure = pair[rank], _of_messages(pair, failure)
    if failure["kind"] == "number":
        return _other_number(rank, failure)
    if failure["kind"] == "revoked":
        return revoked("call", rank, failure["culprit"])
    about: dict[str, Any] = {
        "rank": rank,
        "sequence": failure["mine"]["number"],
        "collective": _collective(failure["mine"]),
    }
    if failure["kind"] == "timeout":
        missing = tuple(failure["missing"])
        return CollectiveTimeout(_timeout(failure), **about, missing=missing)
    kind, words = _OF_CULPRIT[failure["kind"]]
    missing = (failure["culprit"],) if failure["culprit"] >= 0 else ()
    return kind(words(failure), **about, missing=missing)


def revoked(call: str, rank: int, culprit: int) -> CommunicatorRevoked:
    """The error of a call on a communicator that a rank has revoked."""
    return CommunicatorRevoked(
        f"{call}: rank {culprit} has revoked this communicator, or makes one of "
        "the survivors (shrink, grow); call the same here",
        rank=rank,
        missing=(culprit,),
    )


def in_signal_handler(rank: int, call: str = "a call") -> CollalgoError:
    """The error of a call by code of the user that another call runs."""
    return CollalgoError(
        f"{call}: rank {rank} is in another call on this communicator, in which a "
        "signal handler, a done-callback, an op, an array that is read or an object "
        "that is unpickled makes this one; make it later, or on a communicator of its "
        "own (comm.dup())",
        rank=rank,
    )


def _of_messages(pair: tuple[int, int], failure: dict[str, Any]) -> dict[str, Any]:
    """A failure of the world of a pair, in ranks of the larger world."""

    def message(call: dict[str, Any] | None) -> dict[str, Any] | None:
        return call and {**call, "name": "message"}

    return {
        **failure,
        "rank": pair[failure["rank"]],
        "culprit": pair[failure["culprit"]] if failure["culprit"] >= 0 else -1,
        "mine": message(failure["mine"]),
        "theirs": message(failure["theirs"]),
        "missing": [pair[rank] for rank in failure["missing"]],
        "last_calls": {
            str(pair[int(rank)]): message(call)
            for rank, call in failure["last_calls"].items()
        },
    }


def _collective(call: dict[str, Any]) -> str:
    return call.get("name") or call_name(call)


def _with_ranks(call: dict[str, Any]) -> str:
    """A collective, or a call that makes a group with the ranks of that."""
    return f"{_collective(call)} {group_text(call)}".rstrip()


def _call(call: dict[str, Any]) -> str:
    op = op_text(call["op"]) if call["op"] >= 0 else None
    dtype = dtype_passed(call)
    named = _collective(call), call["number"], elements(call)
    if group_text(call) or _exchanges(call):
        return f"{named[0]} #{named[1]} ({group_text(call)})".removesuffix(" ()")
    return call_text(*named, dtype, op, call["algorithm"])


def _mismatch(failure: dict[str, Any]) -> str:
    mine, theirs = failure["mine"], failure["theirs"]
    rank, other = failure["rank"], failure["culprit"]
    if group_text(mine) and group_text(theirs):
        return _other_ranks(failure)
    if theirs["sequence"] > mine["sequence"]:  # too many calls ago to be recorded
        return (
            f"{_number(failure)}: rank {rank} is in it but rank {other} is already in "
            f"{_collective(theirs)} #{theirs['number']}; {SAME_CALLS}"
        )
    if _collective(mine) != _collective(theirs):
        return _difference(failure, "collective")
    if _exchanges(mine) != _exchanges(theirs):
        return _without_counts(failure)
    return _other_arguments(failure)


def _other_arguments(failure: dict[str, Any]) -> str:
    """The mismatch of calls of the same collective."""
    mine, theirs = failure["mine"], failure["theirs"]
    if words := differing_arrays(failure):
        return f"{_number(failure)}: {words}"
    what = differing_field(mine, theirs)
    has_counts = mine["op"] == UNEVEN or _collective(mine) in UNEVEN_SUMS
    if what in ("count", "") and has_counts:
        return f"{_number(failure)}: {differing_counts(failure)}"
    if what:
        return _difference(failure, what)
    return f"{_number(failure)}: {differing_beyond(failure)}; {SAME_CALLS}"


def _other_ranks(failure: dict[str, Any]) -> str:
    """The mismatch of calls that make groups of other ranks."""
    mine, theirs = failure["mine"], failure["theirs"]
    alike = " with others between them, or in another order"
    return (
        f"{_number(failure)}: rank {failure['rank']} passed the ranks "
        f"{group_text(mine)} but rank {failure['culprit']} passed {group_text(theirs)}"
        f"{alike if group_text(mine) == group_text(theirs) else ''}; "
        "every member must pass the same ranks in the same order"
    )


def _other_number(rank: int, failure: dict[str, Any]) -> CollalgoError:
    """The error of ranks that have closed after different numbers of calls."""
    other = failure["culprit"]
    mine, theirs = (
        _last_call(failure, r, f"rank {r}", f"rank {r}'s") for r in (rank, other)
    )
    return MismatchError(
        f"close: {mine} but {theirs}; {SAME_CALLS}",
        rank=rank,
        sequence=failure["mine"] and failure["mine"]["number"],
        collective="close",
        missing=(other,),
    )


def _number(failure: dict[str, Any]) -> str:
    """The failed call by its collective and number."""
    return f"{_collective(failure['mine'])} #{failure['mine']['number']}"


def _exchanges(call: dict[str, Any]) -> bool:
    """Whether a call is an exchange of counts before that of the user."""
    return str(call["algorithm"]).startswith(EXCHANGE)


def _without_counts(failure: dict[str, Any]) -> str:
    """The mismatch of ranks that pass counts with one that does not."""
    pair = failure["rank"], failure["culprit"]
    without, with_them = pair if _exchanges(failure["mine"]) else pair[::-1]
    is_like = _collective(failure["mine"]) == "broadcast"
    what, them = ("`like`", "it") if is_like else ("the counts of all ranks", "them")
    return (
        f"{_number(failure)}: rank {without} did not pass {what} but rank {with_them} "
        f"did; pass {them} on every rank, or on none, and the ranks exchange what each "
        "knows"
    )


def _difference(failure: dict[str, Any], what: str) -> str:
    """The mismatch of one argument, or of the collective."""
    mine, theirs = failure["mine"], failure["theirs"]
    rank, other, number = failure["rank"], failure["culprit"], mine["number"]
    if what == "collective":
        return (
            f"call #{number}: rank {rank} called {_with_ranks(mine)} "
            f"but rank {other} called {_with_ranks(theirs)}; {SAME_CALLS}"
        )
    ours, its = (_value(what, one) for one in (mine, theirs))
    return (
        f"{_collective(mine)} #{number}: rank {rank} passed {ours} but rank {other} "
        f"passed {its}; every rank must pass the same {what}{or_skipped(what, number)}"
    )


def _value(what: str, call: dict[str, Any]) -> str:
    if what == "count":
        return f"{elements(call)} elements"
    if what == "dtype":
        return dtype_passed(call)
    if what == "op":
        return f"op {op_text(call[what])!r}"
    return f"{what} {call[what]!r}"


def _peer(failure: dict[str, Any]) -> str:
    culprit, call = failure["culprit"], _number(failure)
    if culprit < 0:
        return f"{call}: {failure['exit_reason']}"
    why = failure["exit_reason"] or "its process ended"
    last = _last_call(failure, culprit, "it", "its")
    told = f"{call}: rank {culprit} is gone: {why}"
    if why == CLOSED and last and _lacks_call(failure):
        return f"{told}, or its program ended, before this call; {last}; {SAME_CALLS}"
    return told + (f"; {last}" if last else "")


def _lacks_call(failure: dict[str, Any]) -> bool:
    """Whether the culprit is known not to have made the call."""
    last = failure["last_calls"].get(str(failure["culprit"]), failure["mine"])
    return not last or last["sequence"] < failure["mine"]["sequence"]


def _unreadable(failure: dict[str, Any]) -> str:
    """A rank could not read the memory of another rank, which is alive."""
    reader, culprit = failure["rank"], failure["culprit"]
    return (
        f"{_number(failure)}: rank {reader} cannot read the memory of rank {culprit} "
        "any more; the processes must keep the rights that they had when they connected"
    )


def _timeout(failure: dict[str, Any]) -> str:
    missing = failure["missing"]
    gave_up = (
        f"{_call(failure['mine'])}: rank {failure['rank']} waited "
        f"{failure['waited']:g} s for "
    )
    if not missing:
        on_devices = failure["mine"]["algorithm"].endswith(ON_DEVICES)
        streams = ", or for earlier work on a stream" if on_devices else ""
        return (
            f"{gave_up}the others, which are all in the call{streams}; raise the "
            f"timeout ({OF_DEFAULT})"
        )
    ranks = ", ".join(
        f"rank {rank}, {last or 'whose last call is not known'}"
        for rank in missing[:4]
        for last in [_last_call(failure, rank, "which", "whose")]
    )
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    advice = f"make the call there too, or raise the timeout ({OF_DEFAULT})"
    return f"{gave_up}{ranks}{more}; {advice}"


def _last_call(failure: dict[str, Any], rank: int, who: str, whose: str) -> str:
    """The last call of a rank in words, with its pronouns; empty if it is unknown."""
    calls = failure["last_calls"]
    if str(rank) not in calls:
        return ""
    call = calls[str(rank)]
    last = f"{whose} last call was"
    return f"{last} {_call(call)}" if call else f"{who} has made no call"


#: The errors for failures of which one rank is the cause, and their words.
_OF_CULPRIT: dict[str, tuple[type[CollalgoError], Callable[[dict[str, Any]], str]]] = {
    "mismatch": (MismatchError, _mismatch),
    "peer": (PeerFailed, _peer),
    "read": (PeerFailed, _unreadable),
}
