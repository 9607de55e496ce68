"""Derive rules from measurements: the fastest algorithm from each size on."""

from collections.abc import Iterable, Sequence
from math import sqrt

import yaml
from collalgo.bench.records import Record
from collalgo.bench.report import the_chosen

from collalgo.base import output_files
from collalgo.selection.rules import FORMAT

#: The relative gain that an algorithm needs to replace another.
CLEARLY = 0.05

#: The prefix of the names of such rules.
TUNED = "tuned on"


def rules_of(records: Iterable[Record]) -> dict[str, list[dict[str, object]]]:
    """A rule for each collective and measured number of ranks.

    The default selection, and the winner at the previous size, are kept unless another
    algorithm is clearly faster.
    """
    cells: dict[tuple[str, int], dict[int, list[Record]]] = {}
    for record in records:
        sizes = cells.setdefault((record.collective, record.ranks), {})
        sizes.setdefault(record.size, []).append(record)
    table: dict[str, list[dict[str, object]]] = {}
    for (collective, ranks), sizes in cells.items():
        rule = {"ranks": ranks, "sizes": _thresholds(sizes)}
        table.setdefault(collective, []).append(rule)
    return table


def _thresholds(sizes: dict[int, list[Record]]) -> dict[int, str]:
    """The algorithm from each threshold on; it is the geometric mean of two sizes."""
    found: dict[int, str] = {}
    before, last = 0, ""
    for size in sorted(sizes):
        best = _best(sizes[size], last)
        if best != last:
            found[round(sqrt(before * size))] = best
        before, last = size, best
    return found


def _best(rivals: Sequence[Record], last: str) -> str:
    """The fastest, or the default or previous winner if it is about as fast."""
    fastest = min(rivals, key=lambda record: record.p50)
    chosen = the_chosen(rivals)
    known = [r for r in rivals if r.algorithm == last or r is chosen]
    near = [r for r in known if r.p50 <= fastest.p50 * (1 + CLEARLY)]
    return min(near or [fastest], key=lambda record: record.p50).algorithm


def text_of(table: dict[str, list[dict[str, object]]], name: str) -> str:
    """The text of a file of rules."""
    return _dumped({"collalgo": FORMAT, "name": name, "rules": table})


def _dumped(document: dict[str, object]) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None)
    return text


def _is_ours(data: bytes) -> bool:
    """Whether a file is byte for byte as written here, without edits by hand."""
    found = yaml.safe_load(data)
    is_tuned = found["name"].startswith(TUNED)
    return is_tuned and _dumped(found) == data.decode()


RULES = output_files.Format("a file of rules", _is_ours)
