"""How the arrays or the counts of a call differ between two ranks, in words.

Records of calls on several arrays describe them as text, of which they hold the first
characters.
"""

import re
from collections.abc import Mapping
from typing import Any

from collalgo.algorithms.neighbors import UNIFORM
from collalgo.comm.call_text import UNEVEN, dtype_passed, elements
from collalgo.engine.call import arrays_in_name

#: The most bytes of the text in a record, as ``transport.h`` has it.
MOST_BYTES = 39

#: The key at the end of the text of an array.
KEY = re.compile(r" (\[.*?\])(?=\+\d|$)")

#: A count without a dtype: the array has that of the message.
COUNT = re.compile(r"(?<![^+])\d+(?=\+|$)")

#: The key at which the text in a record may have been cut.
CUT_KEY = re.compile(r" (\[(?:(?!\]\+\d).)*)$")

#: What an object shows that has no text of its own: its address in the process.
ADDRESS = " object at 0x"


def differing_arrays(failure: Mapping[str, Any]) -> str:
    """How the arrays of two ranks differ, in words; empty if that is unknown."""
    mine, theirs = failure["mine"], failure["theirs"]
    parts = [arrays_in_name(call["algorithm"]) for call in (mine, theirs)]
    if parts[0] == parts[1]:
        return ""
    rank, other = failure["rank"], failure["culprit"]
    for key, its in zip(_keys(mine), _keys(theirs), strict=False):
        if not (_may_be(key, its) or _may_be(its, key)):
            alike = ", as strings or numbers" * (ADDRESS in key + its)
            return (
                f"rank {rank} passed an array at {key} where rank {other} passed one "
                f"at {its}; every rank must pass the same keys{alike}"
            )
    ours, its = _arrays(mine), _arrays(theirs)
    if ours == its:
        return ""
    return (
        f"rank {rank} passed {ours} but rank {other} passed {its}; every rank must "
        "pass arrays of the same shapes and dtypes at the same places"
    )


def _is_cut(call: Mapping[str, Any]) -> bool:
    """Whether the text in the record of a call may have been cut."""
    return len(call["algorithm"].encode()) >= MOST_BYTES  # a cut character is longer


def _keys(call: Mapping[str, Any]) -> list[str]:
    """The keys of the arrays of a call, of which the last may be cut."""
    parts = arrays_in_name(call["algorithm"]) or ""
    cut = CUT_KEY.search(parts) if _is_cut(call) else None
    if cut:
        key = cut[1].rstrip("\ufffd")  # of a character that was cut
        return [*KEY.findall(parts[: cut.start()]), f"{key}..."]
    return KEY.findall(parts)


def _may_be(key: str, other: str) -> bool:
    """Whether a key, perhaps cut, may be another one."""
    is_cut = key.endswith("...")
    return key == other or (is_cut and other.startswith(key.removesuffix("...")))


def _arrays(call: Mapping[str, Any]) -> str:
    """The arrays of a call in words."""
    dtype, parts = dtype_passed(call), arrays_in_name(call["algorithm"])
    if parts is None:
        return f"one array of {elements(call)} elements of {dtype}"
    complete, is_cut = parts, _is_cut(call)
    if is_cut:
        key = CUT_KEY.search(parts)
        complete = parts[: key.start()] if key else parts.rpartition("+")[0]
    counts = KEY.sub("", complete) + "+..." * is_cut
    if not counts:
        return "no arrays"
    if set(counts) <= set("0123456789+."):  # as all are of one dtype
        counts += f" elements of {dtype}"
    else:
        counts = COUNT.sub(lambda count: f"{count[0]} {dtype}", counts)
    return f"arrays of {counts}" + " with keys" * bool(_keys(call))


def differing_beyond(failure: Mapping[str, Any]) -> str:
    """The difference of ranks whose records are equal."""
    rank, other = failure["rank"], failure["culprit"]
    if arrays_in_name(failure["mine"]["algorithm"]) is None:
        return (
            f"ranks {rank} and {other} made different calls before it, too many calls "
            "ago to be named"
        )
    keys = _keys(failure["mine"])
    or_keys = " or their keys" * bool(keys)
    alike = ADDRESS in "".join(keys)
    advice = "; keys must be the same on all ranks, as strings or numbers" * alike
    return (
        f"ranks {rank} and {other} passed {_arrays(failure['mine'])}, of which later "
        f"ones{or_keys} differ, or made different calls too long before it to be named"
        f"{advice}"
    )


def differing_counts(failure: Mapping[str, Any]) -> str:
    """The difference of calls with a count for each rank."""
    mine, theirs = (
        f"{elements(call)} of {call['count']}"
        if call["op"] == UNEVEN
        else str(elements(call))
        for call in (failure["mine"], failure["theirs"])
    )
    differ = failure["mine"]["count"] != failure["theirs"]["count"]
    where = f": {mine} elements and {theirs}" if differ else " for some rank"
    alike = "the same counts, and rows of the same length"
    if UNIFORM in str(failure["mine"]["algorithm"]):
        alike = "blocks of the same length"
    return (
        f"ranks {failure['rank']} and {failure['culprit']} passed different counts"
        f"{where}; every rank must pass {alike}"
    )


def or_skipped(what: str, number: int) -> str:
    """The other likely reason of a difference in a call that is not the first."""
    of_call = what in ("count", "dtype", "op", "root") and number > 1
    return ", unless one of them has skipped a call before" if of_call else ""
