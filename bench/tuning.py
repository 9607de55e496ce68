"""Derive rules from measurements: the fastest algorithm from each size on."""

from collections.abc import Collection, Iterable, Sequence
from math import sqrt
from typing import Any

import yaml
from collalgo.bench.choices import regrets, the_chosen
from collalgo.bench.measuring import geometric_mean
from collalgo.bench.records import Record

from collalgo.base import output_files
from collalgo.base.units import human
from collalgo.selection.rules import FORMAT

#: The relative gain that an algorithm needs to replace another.
CLEARLY = 0.05

RULES = output_files.Format("a rules file", endings=("yaml", "yml"))

#: The prefix of the names of such rules.
TUNED = "tuned on"


def rules_of(
    records: Iterable[Record], one_for_all: Collection[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """A rule for each collective and measured number of ranks.

    The default selection, and the winner at the previous size, are kept unless another
    algorithm is clearly faster. Collectives in ``one_for_all`` get one for all sizes.
    """
    cells: dict[tuple[str, int], dict[int, list[Record]]] = {}
    for record in records:
        sizes = cells.setdefault((record.collective, record.ranks), {})
        sizes.setdefault(record.size, []).append(record)
    table: dict[str, list[dict[str, Any]]] = {}
    for (collective, ranks), sizes in cells.items():
        find = _overall if collective in one_for_all else _thresholds
        rule = {"ranks": ranks, "sizes": find(sizes)}
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


def seconds_of(record: Record) -> float:
    """The median of the best cycle, as other processes only lengthen times."""
    return min(record.runs)


def _overall(sizes: dict[int, list[Record]]) -> dict[int, str]:
    """The algorithm of the least mean of times, relative to the default selection."""
    ratios: dict[str, list[float]] = {}
    defaults: list[str] = []
    for rivals in sizes.values():
        chosen = the_chosen(rivals) or rivals[0]
        defaults.append(chosen.algorithm)
        for one in rivals:
            ratio = seconds_of(one) / seconds_of(chosen)
            ratios.setdefault(one.algorithm, []).append(ratio)
    means = {name: geometric_mean(found) for name, found in ratios.items()}
    best = min(means, key=means.__getitem__)
    near = [name for name in defaults if means[name] <= means[best] * (1 + CLEARLY)]
    return {0: [*near, best][0]}


def _best(rivals: Sequence[Record], last: str) -> str:
    """The fastest, or the default or previous winner if it is about as fast."""
    fastest = min(rivals, key=seconds_of)
    chosen = the_chosen(rivals)
    known = [r for r in rivals if r.algorithm == last or r is chosen]
    limit = seconds_of(fastest) * (1 + CLEARLY)
    near = [one for one in known if seconds_of(one) <= limit]
    return min(near or [fastest], key=seconds_of).algorithm


def nearness(records: Sequence[Record]) -> str:
    """How near the selected algorithms are to the best, of other cycles."""
    ratios = regrets(records)
    near = sum(ratio <= 1 + CLEARLY for ratio in ratios.values()) / len(ratios)
    worst = max(ratios, key=ratios.__getitem__)
    collective, ranks, size = worst[:3]
    return (
        f"the selection is within {100 * CLEARLY:.0f} % of the best in {near:.0%} of "
        f"{len(ratios)} cells; worst {ratios[worst]:.2f} ({collective}, "
        f"{human(int(str(size)))}, {ranks} ranks)"
    )


def gained(records: Sequence[Record], table: dict[str, list[dict[str, Any]]]) -> str:
    """What rules gain over the default selections, by the times they are made of."""
    found: list[tuple[float, Record]] = []
    cells = dict.fromkeys(record[1:9] for record in records)
    for cell in cells:
        rivals = [record for record in records if record[1:9] == cell]
        before, after = the_chosen(rivals), _ruled(rivals, table)
        if before and after and after.algorithm != before.algorithm:
            found.append((seconds_of(before) / seconds_of(after), after))
    if not found:
        return f"the rules keep the selection in all {len(cells)} cells"
    most, record = max(found, key=lambda pair: pair[0])
    mean = geometric_mean([ratio for ratio, _ in found])
    return (
        f"another algorithm in {len(found)} of {len(cells)} cells, {mean:.2f} times as "
        f"fast in their geometric mean, by the same times; at most {most:.2f} "
        f"({record.collective}, {human(record.size)}, {record.ranks} ranks, "
        f"{record.algorithm})"
    )


def _ruled(
    rivals: Sequence[Record], table: dict[str, list[dict[str, Any]]]
) -> Record | None:
    """The record of the algorithm that the rules choose in a cell."""
    one = rivals[0]
    sizes: dict[int, str] = next(
        rule["sizes"] for rule in table[one.collective] if rule["ranks"] == one.ranks
    )
    name = sizes[max(size for size in sizes if size <= one.size)]
    return next((record for record in rivals if record.algorithm == name), None)


def text_of(table: dict[str, list[dict[str, Any]]], name: str) -> str:
    """The text of a rules file."""
    found = {"collalgo": FORMAT, "maker": RULES.mark, "name": name, "rules": table}
    text: str = yaml.safe_dump(
        found, sort_keys=False, default_flow_style=None, width=100
    )
    return text
