"""How the arrays or the counts of a call differ between two ranks, in words.

Records of calls on several arrays describe them as text, of which they hold the first
characters.
"""

import re
from collections.abc import Mapping
from typing import Any

from collalgo.algorithms.neighbors import UNIFORM
from collalgo.comm.call_text import UNEVEN, elements
from collalgo.engine.call import arrays_in_name
from collalgo.engine.dtypes import dtype_text

#: The most bytes of the text in a record, as ``transport.h`` has it.
MOST_BYTES = 39

#: The key at the end of the text of an array.
KEY = re.compile(r" (\[.*?\])(?=\+\d|$)")


def differing_arrays(failure: Mapping[str, Any]) -> str:
    """How the arrays of two ranks differ, in words; empty if that is unknown."""
    mine, theirs = failure["mine"], failure["theirs"]
    parts = [arrays_in_name(call["algorithm"]) for call in (mine, theirs)]
    if parts[0] == parts[1]:
        return ""
    rank, other = failure["rank"], failure["culprit"]
    for key, its in zip(*(KEY.findall(text or "") for text in parts), strict=False):
        if key != its:
            return (
                f"rank {rank} passed an array at {key} where rank {other} passed one "
                f"at {its}; every rank must pass the same keys"
            )
    ours, its = _arrays(mine), _arrays(theirs)
    if ours == its:
        return ""
    return (
        f"rank {rank} passed {ours} but rank {other} passed {its}; every rank must "
        "pass arrays of the same shapes and dtypes at the same places"
    )


def _arrays(call: Mapping[str, Any]) -> str:
    """The arrays of a call in words."""
    dtype, parts = dtype_text(call["dtype"]), arrays_in_name(call["algorithm"])
    if parts is None:
        return f"one array of {elements(call)} elements of {dtype}"
    is_cut = len(call["algorithm"].encode()) == MOST_BYTES
    complete = parts.rpartition("+")[0] if is_cut else parts
    counts = KEY.sub("", complete) + "+..." * is_cut
    if not counts:
        return "no arrays"
    if set(counts) <= set("0123456789+."):  # as all are of one dtype
        counts += f" elements of {dtype}"
    return f"arrays of {counts}" + " with keys" * bool(KEY.search(complete))


def differing_beyond(failure: Mapping[str, Any]) -> str:
    """The difference of ranks whose records are equal."""
    rank, other = failure["rank"], failure["culprit"]
    if arrays_in_name(failure["mine"]["algorithm"]) is None:
        return (
            f"ranks {rank} and {other} made different calls before it, too many calls "
            "ago to be named"
        )
    return (
        f"ranks {rank} and {other} passed {_arrays(failure['mine'])}, of which later "
        "ones differ, or made different calls too long before it to be named"
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
