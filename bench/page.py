"""The page of a measurement: its tables, its plots, and where it was made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from collalgo.bench.cells import PLACES
from collalgo.bench.plot import lines_of
from collalgo.bench.records import Record, read_results
from collalgo.bench.report import conditions_in_words, legend, rivals, summary, tables
from rich.table import Table
from rich.text import Text

from collalgo.base import chart, notebook, page
from collalgo.base.page import Cell
from collalgo.base.units import counted, human, size_in_bytes

#: The entries of the environment that the page shows, in this order.
SHOWN = (
    *("command", "processor", "cores", "ranks", "launcher", "platform", "python"),
    *("numpy", "collalgo", "commit"),
)

#: The most rows of a page, and the pixels of a page in a notebook.
MOST_ROWS, HEIGHT = 20_000, 720


class Results(NamedTuple):
    """The rows of a measurement and its environment, which notebooks show as a page.

    Attributes
    ----------
    records : sequence of Record
        The rows.
    environment : dict
        The machine, the versions and the command.
    """

    records: Sequence[Record]
    environment: Mapping[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> "Results":
        """Read a file of ``collalgo bench --json``.

        Raises
        ------
        ValueError
            If it is not such a file.
        """
        return cls(*read_results(Path(path)))

    def page(self, shown: Sequence[Table] | None = None) -> str:
        """The page, HTML without a network.

        Parameters
        ----------
        shown
            The tables; by default those of all rows, and of the peers' ratios.
        """
        names = dict.fromkeys(record.collective for record in self.records)
        ranks = self.records[0].ranks if self.records else 0
        title = f"{', '.join(names)} on {counted(ranks, 'rank')}"
        return page.page(title, _parts(self, shown or _all_tables(self.records)))

    def __repr__(self) -> str:
        return f"<Results of {len(self.records)} cells>"

    def _repr_html_(self) -> str | None:
        return notebook.framed(self, self._obstacle, self.page, HEIGHT)

    def _obstacle(self) -> str:
        count = len(self.records)
        if count > MOST_ROWS:
            return f"{count} rows are too many for a page, at most {MOST_ROWS}"
        return "" if count else "there are no rows"


def _all_tables(records: Sequence[Record]) -> list[Table]:
    has_peers = any(record.contestant != "collalgo" for record in records)
    return [*[rivals(records)] * has_peers, *tables(records)]


def _parts(results: Results, shown: Sequence[Table]) -> Iterator[str]:
    """The parts of the page."""
    yield page.lines(_sentences(results))
    plots = list(_plots(results.records))
    if plots:  # of collectives that have sizes
        yield PLOTS
        yield from plots
    for i, table in enumerate(shown):
        yield from _table(f"table{i}", table)
    yield "<h2>Machine</h2>"
    known = results.environment
    yield page.facts({name: known[name] for name in SHOWN if known.get(name)})


PLOTS = """<h2>Plots</h2><p class="hint">Click a plot, then <kbd>+</kbd> <kbd>-</kbd>
or the wheel zoom, arrows or dragging pan, <kbd>0</kbd> shows all; boxes hide lines. A
point shows its values under the pointer. <kbd>/</kbd> filters the rows of the first
table, and a click on a column sorts them.</p>"""


def _sentences(results: Results) -> list[str]:
    """What the command prints around its tables."""
    needed = ("cores", "ranks_here", "load")
    known = results.environment
    if not all(type(known.get(name)) in (int, float) for name in needed):
        return summary(results.records)
    words = conditions_in_words(known), legend(results.records, known)
    return [line for lines in words for line in lines] + summary(results.records)


def _plots(records: Sequence[Record]) -> Iterator[str]:
    """Two charts for each collective, and their legend."""
    sized = [record for record in records if record.size]
    for collective in (name for name in PLACES if _has(sized, name)):
        lines = lines_of({"": sized}, collective)
        names = [name or "collalgo" for name in lines]
        yield f'<section class="collective"><h3>{escape(collective)}</h3>'
        yield chart.legend(names)
        yield '<div class="charts">'
        axes = (
            ("time in us (less is better)", _microseconds),
            ("busbw in GB/s (more is better)", _bandwidth),
        )
        for unit, value in axes:
            drawn = [
                chart.Line(name, _points(points, value), _is_strong(points, len(lines)))
                for name, points in zip(names, lines.values(), strict=True)
            ]
            yield chart.chart(collective, ("bytes", unit), drawn)
        yield "</div></section>"


def _has(records: Sequence[Record], collective: str) -> bool:
    return any(record.collective == collective for record in records)


def _is_strong(points: Sequence[Record], count: int) -> bool:
    """Whether a line is ours among those of peers."""
    return points[0].contestant == "collalgo" and count > 1


def _microseconds(record: Record) -> float:
    return median(record.runs) * 1e6


def _bandwidth(record: Record) -> float:
    return record.busbw / 1e9


def _points(
    records: Sequence[Record], value: Callable[[Record], float]
) -> list[tuple[float, float, str]]:
    return [
        (
            record.size,
            value(record),
            f"{human(record.size)}, {_microseconds(record):.2f} us, "
            f"{_bandwidth(record):.2f} GB/s, {record.algorithm}".rstrip(", "),
        )
        for record in records
    ]


def _table(name: str, table: Table) -> Iterator[str]:
    """A table of the command, which can be sorted and filtered."""
    yield f"<h2>{escape(str(table.title or ''))}</h2>"
    columns = [str(column.header).replace("\n", " ") for column in table.columns]
    cells = [[_cell(words) for words in column.cells] for column in table.columns]
    yield from page.table(name, columns, list(zip(*cells, strict=True)))


def _cell(shown: object) -> Cell:
    """A cell of a table: numbers and sizes are sorted as such."""
    is_bad = isinstance(shown, Text) and str(shown.style) == "red"
    words = str(shown)
    number = words.removeprefix("~ ")
    try:
        value = float(number)
    except ValueError:
        try:
            value = float(size_in_bytes(number))
        except ValueError:
            return Cell(words, is_text=bool(words), is_bad=is_bad)
    return Cell(words, value, is_bad=is_bad)
