"""Errors for failures: which rank, what with both values, what to do."""

import traceback
from pathlib import Path
from typing import Any

from collalgo.comm.call_text import (
    COMPARED,
    EXCHANGE,
    UNEVEN,
    call_name,
    call_text,
    elements,
)
from collalgo.engine.reduction import DTYPES, RECORDED_OPS
from collalgo.errors import (
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
)

#: The most characters of an exception that are sent to the other ranks.
REASON = 150

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
    about: dict[str, Any] = {
        "rank": rank,
        "sequence": failure["sequence"],
        "collective": _collective(failure["mine"]),
    }
    if failure["kind"] == "mismatch":
        return MismatchError(_mismatch(failure), **about, missing=(failure["culprit"],))
    if failure["kind"] == "read":
        culprit = failure["culprit"]
        return PeerFailed(_unreadable(failure), **about, missing=(culprit,))
    if failure["kind"] == "peer":
        missing = (failure["culprit"],) if failure["culprit"] >= 0 else ()
        return PeerFailed(_peer(failure), **about, missing=missing)
    return CollectiveTimeout(
        _timeout(failure), **about, missing=tuple(failure["missing"])
    )


def in_signal_handler(rank: int, call: str = "a call") -> CollalgoError:
    """The error of a call by a signal handler that has interrupted another call."""
    return CollalgoError(
        f"{call}: rank {rank} is in another call on this communicator, which a signal "
        "handler has interrupted to make this one; set a flag in the handler and make "
        "the call later, or use a communicator of its own (comm.dup())",
        rank=rank,
    )


def reason_of(error: BaseException) -> str:
    """An exception in words for the other ranks: its type, message and place."""
    reason = f"{type(error).__name__}: {error}"
    places = traceback.extract_tb(error.__traceback__)
    if not places:
        return reason
    last = places[-1]
    file = Path(last.filename).name
    return f"{reason[:REASON]} (at {file}:{last.lineno} in {last.name})"


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


def _call(call: dict[str, Any]) -> str:
    op = RECORDED_OPS[call["op"]] if call["op"] >= 0 else None
    dtype = DTYPES[call["dtype"]]
    named = _collective(call), call["sequence"], elements(call)
    return call_text(*named, dtype, op, call["algorithm"])


def _mismatch(failure: dict[str, Any]) -> str:
    mine, theirs = failure["mine"], failure["theirs"]
    if theirs["sequence"] > mine["sequence"]:  # too many calls ago to be remembered
        return _gone_on(failure)
    if _collective(mine) != _collective(theirs):
        return _difference(failure, "collective")
    if _exchanges(mine) != _exchanges(theirs):
        return _without_counts(failure)
    differing = (
        what for what in COMPARED[1:] if _passed(what, mine) != _passed(what, theirs)
    )
    if what := next(differing, ""):
        return _difference(failure, what)
    return _unnamed_difference(failure)


def _gone_on(failure: dict[str, Any]) -> str:
    """The mismatch with a rank that is in a later call."""
    rank, other, theirs = failure["rank"], failure["culprit"], failure["theirs"]
    return (
        f"{_number(failure)}: rank {rank} is in it but rank {other} has gone on to "
        f"{_collective(theirs)} #{theirs['sequence']}; {SAME_CALLS}"
    )


def _unnamed_difference(failure: dict[str, Any]) -> str:
    """The mismatch of calls whose recorded arguments are the same."""
    mine, rank, other = failure["mine"], failure["rank"], failure["culprit"]
    if mine["op"] == UNEVEN or _collective(mine) in UNEVEN_SUMS:
        return (
            f"{_number(failure)}: ranks {rank} and {other} passed different counts for "
            "some rank; every rank must pass the same counts"
        )
    return (
        f"{_number(failure)}: ranks {rank} and {other} made different calls before it, "
        f"too many calls ago to be named; {SAME_CALLS}"
    )


def _other_number(rank: int, failure: dict[str, Any]) -> CollalgoError:
    """The error of ranks that have closed after different numbers of calls."""
    other = failure["culprit"]
    return MismatchError(
        f"close: the last call of rank {rank} was {_last_call(failure, rank)} but that "
        f"of rank {other} was {_last_call(failure, other)}; {SAME_CALLS}",
        rank=rank,
        sequence=failure["sequence"],
        collective="close",
        missing=(other,),
    )


def _number(failure: dict[str, Any]) -> str:
    """The failed call by its collective and number."""
    return f"{_collective(failure['mine'])} #{failure['sequence']}"


def _exchanges(call: dict[str, Any]) -> bool:
    """Whether a call is an exchange of counts before that of the user."""
    return str(call["algorithm"]).startswith(EXCHANGE)


def _without_counts(failure: dict[str, Any]) -> str:
    """The mismatch of ranks that pass counts with one that does not."""
    pair = failure["rank"], failure["culprit"]
    without, with_them = pair if _exchanges(failure["mine"]) else pair[::-1]
    return (
        f"{_number(failure)}: rank {without} did not pass the counts of all ranks but "
        f"rank {with_them} did; pass them on every rank, or on none, and the ranks "
        "exchange what each knows"
    )


def _difference(failure: dict[str, Any], what: str) -> str:
    """The mismatch of one argument, or of the collective."""
    mine, theirs = failure["mine"], failure["theirs"]
    rank, other, number = failure["rank"], failure["culprit"], failure["sequence"]
    if what == "collective":
        return (
            f"call #{number}: rank {rank} called {_collective(mine)} "
            f"but rank {other} called {_collective(theirs)}; {SAME_CALLS}"
        )
    ours, its = (_value(what, one) for one in (mine, theirs))
    return (
        f"{_collective(mine)} #{number}: rank {rank} passed {ours} but rank {other} "
        f"passed {its}; every rank must pass the same {what}"
    )


def _passed(what: str, call: dict[str, Any]) -> Any:
    return elements(call) if what == "count" else call[what]


def _value(what: str, call: dict[str, Any]) -> str:
    if what == "count":
        return f"{elements(call)} elements"
    if what == "dtype":
        return str(DTYPES[call[what]])
    if what == "op":
        return f"op {RECORDED_OPS[call[what]]!r}"
    return f"{what} {call[what]!r}"


def _peer(failure: dict[str, Any]) -> str:
    culprit, call = failure["culprit"], _number(failure)
    if culprit < 0:
        return f"{call}: {failure['exit_reason']}"
    why = failure["exit_reason"] or "its process ended"
    last = _last_call(failure, culprit)
    return f"{call}: rank {culprit} is gone: {why}" + (
        f"; its last call was {last}" if last else ""
    )


def _unreadable(failure: dict[str, Any]) -> str:
    """A rank could not read the memory of another, which goes on."""
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
        return gave_up + "the others, which are all in the call; pass a longer timeout"
    ranks = ", ".join(
        f"rank {rank}, whose last call {'was ' + last if last else 'is not known'}"
        for rank in missing[:4]
        for last in [_last_call(failure, rank)]
    )
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    advice = "make the call there too, or pass a longer timeout here"
    return f"{gave_up}{ranks}{more}; {advice}"


def _last_call(failure: dict[str, Any], rank: int) -> str:
    """The last call of a rank in words; empty if it is unknown."""
    calls = failure["last_calls"]
    if str(rank) not in calls:
        return ""
    call = calls[str(rank)]
    return "none at all" if call is None else _call(call)
