"""Format results as tables and sentences."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from collalgo.bench.cells import ROOTED
from collalgo.bench.measuring import geometric_mean
from collalgo.bench.new_sizes import best_ratio, ratios_of_peers
from collalgo.bench.peers.environments import TUNED
from collalgo.bench.records import Record
from rich.table import Table
from rich.text import Text

from collalgo.base.units import counted, human


def micro(seconds: float | None) -> str:
    """Seconds as microseconds."""
    return "" if seconds is None else f"{seconds * 1e6:.2f}"


def tables(records: Sequence[Record]) -> list[Table]:
    """One table for each collective, with the columns of nccl-tests and more."""
    names = dict.fromkeys(record.collective for record in records)
    return [
        table([record for record in records if record.collective == name])
        for name in names
    ]


#: Load average of a core from which on a machine counts as busy.
BUSY = 0.5

#: The columns that move to the title of a table if they are equal in all rows.
COMMON = {"dtype": "type", "op": "redop", "root": "root", "place": "place"}

#: The measured and predicted columns of a table, with their units.
MEASURES = (
    *("time us", "p95 us", "p99 us", "min us", "max us", "algbw GB/s", "busbw GB/s"),
    *("predicted us", "floor us", "sent", "#wrong"),
)


def in_two_lines(name: str) -> str:
    """The header of a column, with its unit below."""
    return name.replace(" ", "\n")


def table(records: Sequence[Record]) -> Table:
    """The table of one collective."""
    peers = any(record.contestant != "collalgo" for record in records)
    varying = [name for name in COMMON if len({getattr(r, name) for r in records}) > 1]
    result = Table(title=title(records[0], varying), title_justify="left", box=None)
    result.pad_edge = False
    for name in ("size", "count", *(COMMON[name] for name in varying)):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("algorithm", no_wrap=True)
    fresh = any(record.new_size for record in records)
    measures = *MEASURES[:1], *["fresh us"] * fresh, *MEASURES[1:]
    for name in (*measures, *(["x ours"] if peers else [])):
        result.add_column(in_two_lines(name), justify="right", no_wrap=True)
    result.add_column("why")
    ours: dict[tuple[object, ...], float] = {}
    for record in records:
        if record.contestant == "collalgo":
            ours.setdefault(record[1:9], record.p50)
        ratio_to = ours.get(record[1:9]) if peers else None
        result.add_row(*row(record, varying, ratio_to, fresh))
    return result


def title(record: Record, varying: Sequence[str]) -> str:
    """The title of a table: the values that all rows share."""
    words = {
        "dtype": record.dtype if record.size else "",
        "op": record.op,
        "root": f"root {record.root}" if record.collective in ROOTED else "",
        "place": f"{record.place} of place" if record.place == "out" else "in place",
    }
    common = [words[name] for name in COMMON if name not in varying and words[name]]
    return ", ".join([record.collective, counted(record.ranks, "rank"), *common])


def row(
    record: Record, varying: Sequence[str], ours: float | None, fresh: bool = False
) -> list[str | Text]:
    """The cells of a row.

    ``ours`` is our time, for the ratio of a peer; ``fresh`` adds the time of new sizes.
    """
    peer = record.contestant != "collalgo"
    wrong = "" if record.wrong is None else str(record.wrong)
    ratio = f"{record.p50 / ours:.2f}" if peer and ours else ""
    # Long: one line for each column.
    return [
        human(record.size),
        str(record.count),
        *(str(getattr(record, name)) for name in varying),
        Text(record.contestant, "dim") if peer else record.algorithm,
        micro(record.p50),
        *([micro(record.new_size)] if fresh else []),
        *map(micro, (record.p95, record.p99)),
        *map(micro, (record.minimum, record.maximum)),
        f"{record.algbw / 1e9:.2f}",
        f"{record.busbw / 1e9:.2f}",
        ("~ " if record.rough else "") + micro(record.predicted),
        micro(record.floor),
        "" if record.sent is None else human(record.sent),
        Text(wrong, "red") if record.wrong else wrong,
        *([] if ours is None else [ratio]),
        record.reason,
    ]


def conditions_in_words(conditions: Mapping[str, Any]) -> list[str]:
    """What of the machine makes times long or uncertain, for above the tables."""
    cores, ranks = conditions["cores"], conditions["ranks_here"]
    load, lines = conditions["load"], []
    if ranks > cores:
        lines.append(
            f"{ranks} ranks share {counted(cores, 'core')}: times include the "
            "wait for a core"
        )
    if load > BUSY * cores:
        lines.append(
            f"the machine was busy before: load average {load:.1f} on "
            f"{counted(cores, 'core')}; expect times that are too long and vary"
        )
    return lines


def legend(
    records: Sequence[Record], conditions: Mapping[str, Any], *, predicted: bool = True
) -> list[str]:
    """What the columns of the tables mean that are not those of nccl-tests.

    ``predicted`` is whether they have predicted times, and the reasons of choices.
    """
    rough = "; ~ where ranks share cores" if any(r.rough for r in records) else ""
    price = f"predicted: the price that chose the algorithm{rough}. " * predicted
    limit = "floor: copies and sums that no algorithm avoids"
    if conditions["ranks_here"] < records[0].ranks:
        limit = "floor: the lower bound of the links between the ranks"
    lines = [f"{price}{limit}; time / floor is the distance from it"]
    if any(record.contestant == "mpi" for record in records):
        from mpi4py import MPI

        version = MPI.Get_library_version().partition("\n")[0].strip("\0 ")
        lines.append(f"mpi: {version}; x ours: its time divided by ours")
    return lines


def summary(records: Sequence[Record]) -> list[str]:
    """The summary of nccl-tests, and the ratios of the peers."""
    ours = [record for record in records if record.contestant == "collalgo"]
    wrong = sum(record.wrong or 0 for record in ours)
    lines = [f"wrong elements: {wrong} {'FAILED' if wrong else 'OK'}"]
    moving = [record.busbw for record in ours if record.size]
    if moving:
        mean = sum(moving) / len(moving)
        lines.append(f"average bus bandwidth: {mean / 1e9:.3f} GB/s")
    theirs = [record for record in records if record.contestant != "collalgo"]
    for name in dict.fromkeys(record.contestant for record in theirs):
        ratios = [r for r in cells(records) if name in r.peers]
        lines.append(ratio_line(name, [cell.peers[name] for cell in ratios]))
    if len({record.contestant for record in theirs}) > 1:
        best = [min(cell.peers.values()) for cell in cells(records) if cell.peers]
        lines.append(ratio_line("the best peer of each cell", best))
    lines += gains(theirs)
    return lines + [
        f"first calls of new sizes: {ratio_line(name, ratios)}"
        for name, ratios in ratios_of_peers(records).items()
    ]


def gains(records: Sequence[Record]) -> list[str]:
    """How much faster each library became by its tuning file, as sentences."""
    times = {(record.contestant, record[1:9]): min(record.runs) for record in records}
    found: dict[tuple[str, str], list[float]] = {}
    for (name, cell), seconds in times.items():
        default = name.removesuffix(TUNED)
        if default != name and (default, cell) in times:
            ratio = times[default, cell] / seconds
            for part in (str(cell[0]), "all"):
                found.setdefault((default, part), []).append(ratio)
    return [
        f"{name} with its tuning file, {part}: {geometric_mean(ratios):.2f} times as "
        f"fast in the geometric mean of {len(ratios)} cells, {min(ratios):.2f} to "
        f"{max(ratios):.2f}, by the best bursts"
        for (name, part), ratios in found.items()
    ]


def ratio_line(name: str, ratios: Sequence[float]) -> str:
    """The ratios of a peer over some cells, as a sentence."""
    slower = sum(ratio < 1 for ratio in ratios)
    return (
        f"time of {name} / collalgo: {geometric_mean(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}) over "
        f"{counted(len(ratios), 'cell')}, below 1 in {slower}; "
        "above 1 collalgo is faster"
    )


class Rivals(NamedTuple):
    """Our row of a cell, and the time of each peer relative to ours."""

    ours: Record
    peers: dict[str, float]


def cells(records: Sequence[Record]) -> list[Rivals]:
    """The cells with a row of ours, and their peers."""
    ours: dict[tuple[object, ...], Rivals] = {}
    for record in records:
        if record.contestant == "collalgo":
            ours.setdefault(record[1:9], Rivals(record, {}))
    for record in records:
        if record.contestant != "collalgo" and record[1:9] in ours:
            cell = ours[record[1:9]]
            cell.peers[record.contestant] = middle(record) / middle(cell.ours)
    return list(ours.values())


def middle(record: Record) -> float:
    """The median of the medians of all runs."""
    return median(record.runs)


def rivals(records: Sequence[Record]) -> Table:
    """A row for each cell: our time, and the time of each peer relative to ours."""
    names = dict.fromkeys(r.contestant for r in records if r.contestant != "collalgo")
    fresh = any(record.new_size for record in records)
    of_new = ("fresh us", "fresh best x") if fresh else ()
    result = _table_of_rivals((*(f"{name} x" for name in names), "best x", *of_new))
    for ours, ratios in cells(records):
        best = min(ratios.values(), default=float("nan"))
        result.add_row(
            ours.collective,
            ours.algorithm,
            human(ours.size),
            micro(middle(ours)),
            micro(ours.p99),
            micro(ours.floor),
            f"{ours.busbw / 1e9:.2f}",
            *(f"{ratios[name]:.2f}" if name in ratios else "" for name in names),
            coloured(best),
            *((micro(ours.new_size), coloured(best_ratio(ours, records))) * fresh),
        )
    return result


def _table_of_rivals(columns: Iterable[str]) -> Table:
    """The table of our times and these columns of peers, without rows."""
    result = Table(
        box=None,
        pad_edge=False,
        title="times of collalgo, and times of the peers divided by them (above 1, "
        "collalgo is faster)",
        title_justify="left",
    )
    for name in ("collective", "algorithm"):
        result.add_column(name, no_wrap=True)
    own = ("size", "time us", "p99 us", "floor us", "busbw GB/s")
    for name in (*own, *columns):
        result.add_column(in_two_lines(name), justify="right", no_wrap=True)
    return result


def coloured(ratio: float | None) -> Text:
    """A ratio, red where we are slower; empty if it is unknown."""
    if ratio is None:
        return Text()
    return Text(f"{ratio:.2f}", "red" if ratio < 1 else "")
