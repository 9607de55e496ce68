"""The quality of the choices of algorithms in a sweep: tables and sentences."""

from collections.abc import Iterator, Sequence

from collalgo.bench.records import AS_ASKED, Record
from collalgo.bench.report import micro
from rich.table import Table

from collalgo.base.units import human


def winners(records: Sequence[Record]) -> Table:
    """The fastest algorithm of each cell, and the time of the selected one."""
    result = Table(box=None, pad_edge=False)
    for name in ("collective", "size", "type", "winner", "time us", "second", "chosen"):
        result.add_column(name, no_wrap=True)
    result.add_column("chosen / best", justify="right")
    for cell in dict.fromkeys(record[1:9] for record in records):
        found = [record for record in records if record[1:9] == cell]
        result.add_row(*_winner(sorted(found, key=lambda record: record.p50)))
    return result


def _winner(ranked: Sequence[Record]) -> Iterator[str]:
    """The row of a cell, of its records from the fastest on."""
    best, chosen = ranked[0], the_chosen(ranked)
    yield from (best.collective, human(best.size), best.dtype)
    yield from (best.algorithm, micro(best.p50))
    yield ranked[1].algorithm if len(ranked) > 1 else ""
    yield chosen.algorithm if chosen else ""
    yield f"{chosen.p50 / best.p50:.2f}" if chosen else ""


def the_chosen(records: Sequence[Record]) -> Record | None:
    """The record of the selected algorithm of a cell, if it was measured."""
    return next((r for r in records if r.reason != AS_ASKED), None)


def regrets(records: Sequence[Record]) -> dict[tuple[object, ...], float]:
    """For each cell the time of the selected algorithm relative to the best.

    With several cycles, every other one determines the best, and the rest measure it,
    so that a chance win among many algorithms does not bias the ratio. Of these the
    fastest counts, since other processes only lengthen times.
    """
    found: dict[tuple[object, ...], float] = {}
    for cell in dict.fromkeys(record[1:9] for record in records):
        rivals = [record for record in records if record[1:9] == cell]
        chosen = the_chosen(rivals)
        if chosen and len(rivals) > 1:
            best = min(rivals, key=lambda record: min(record.runs[::2]))
            found[cell] = _validated(chosen) / _validated(best)
    return found


def _validated(record: Record) -> float:
    """The time in the cycles that did not determine the best, if any."""
    return min(record.runs[1::2] or record.runs)


def verdict(records: Sequence[Record]) -> list[str]:
    """The quality of selections and predictions in a sweep, as sentences."""
    found = regrets(records)
    errors = sorted(
        max(r.predicted / r.p50, r.p50 / r.predicted) for r in records if r.predicted
    )
    lines = []
    if found:
        near = sum(ratio <= 1.1 for ratio in found.values()) / len(found)
        worst = max(found, key=found.__getitem__)
        cell = " ".join(map(str, worst[:3]))
        lines.append(
            f"the choice is within 10 % of the best in {near:.0%} of {len(found)} "
            f"cells; worst {found[worst]:.2f} ({cell})"
        )
    if errors:
        half, most = (errors[int(part * (len(errors) - 1))] for part in (0.5, 0.9))
        lines.append(
            "predicted times differ from measured ones by a factor of at most "
            f"{half:.2f} in half, {most:.2f} in nine of ten rows"
        )
    return lines
