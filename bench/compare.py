"""Compare two files of results, cell by cell."""

from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
from collalgo.bench.records import INDEPENDENT, Record

#: Draws of the bootstrap, and the confidence level of its interval in percent.
DRAWS, COVERED = 2000, 95.0


class Verdict(NamedTuple):
    """A cell of both files, with the ratio of the new time to the old."""

    cell: tuple[object, ...]
    algorithm: str
    ratio: float
    low: float
    high: float
    verdict: str


def compare(
    old: Sequence[Record], new: Sequence[Record], tolerance: float = 0.05
) -> list[Verdict]:
    """Match rows by cell and algorithm, and classify each as faster, slower or same.

    The interval comes from a bootstrap over the medians of the cycles, since single
    calls are not independent. For a row of one cycle it is the ratio itself.

    Parameters
    ----------
    old, new
        The rows of both files.
    tolerance
        Ratios within this distance of 1 count as equal.
    """
    known = {_key(record): record for record in old}
    return [
        _judge(known[_key(record)], record, tolerance)
        for record in new
        if _key(record) in known
    ]


def _key(record: Record) -> tuple[object, ...]:
    return (*record[: len(INDEPENDENT)], record.algorithm)


def nothing_in_common(old: Sequence[Record], new: Sequence[Record]) -> str:
    """Why no cell is in two files, with what they differ in and what to do."""
    differ = []
    for name in (*INDEPENDENT, "algorithm"):
        before, after = ({str(getattr(r, name)) for r in rows} for rows in (old, new))
        if not before & after:
            differ.append(f"{name} is {_some(before)} in OLD, {_some(after)} in NEW")
    text = f"the files have no cell in common: {'; '.join(differ) or 'none is equal'}"
    if any(each.startswith("algorithm") for each in differ):
        text += (
            "; the algorithm is part of a cell: measure both in one run, as by "
            "collalgo bench -a ring,two_shot, or draw both by collalgo bench plot OLD "
            "NEW PICTURE"
        )
    return text


def _some(values: Set[str]) -> str:
    return ", ".join(sorted(values)[:3]) + (", ..." if len(values) > 3 else "")


def _judge(old: Record, new: Record, tolerance: float) -> Verdict:
    rng = np.random.default_rng(0)
    medians = [
        np.median(rng.choice(np.array(one.runs), (DRAWS, len(one.runs))), axis=1)
        for one in (old, new)
    ]
    ratios = medians[1] / medians[0]
    edge = (100 - COVERED) / 2
    low, high = (float(x) for x in np.percentile(ratios, [edge, 100 - edge]))
    verdict = "same"
    if low > 1 + tolerance:
        verdict = "slower"
    elif high < 1 - tolerance:
        verdict = "faster"
    return Verdict(
        old[: len(INDEPENDENT)], new.algorithm, new.p50 / old.p50, low, high, verdict
    )
