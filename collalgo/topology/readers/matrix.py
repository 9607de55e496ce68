"""Tables of text whose rows and columns are devices."""

import re
from typing import NamedTuple

from collalgo.errors import TopologyError

#: The most devices of a table.
WIDEST = 1024

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Table(NamedTuple):
    """A table by its labels: the cells of each row, and the cells after them."""

    labels: list[str]
    cells: dict[str, dict[str, str]]
    rest: dict[str, list[str]]


def plain(text: str) -> list[str]:
    """Lines without escape sequences and trailing space."""
    return [line.rstrip() for line in ANSI.sub("", text).splitlines()]


def words(line: str) -> list[str]:
    """The cells of a line, separated by tabs or spaces."""
    if "\t" in line:
        return [cell.strip() for cell in line.strip("\r\n").split("\t") if cell.strip()]
    return line.split()


def table(labels: list[str], lines: list[str], label: re.Pattern[str]) -> Table:
    """The rows that begin with one of the labels, in any order."""
    if len(labels) > WIDEST:
        raise TopologyError(f"{len(labels)} devices are more than {WIDEST}")
    rows: dict[str, list[str]] = {}
    for row in map(words, lines):
        if len(row) < 2 or not label.fullmatch(row[0]) or row[1] in labels:
            continue  # other text, or the header
        if row[0] not in labels:
            raise TopologyError(
                f"{row[0]} has a row but no column; the columns are {', '.join(labels)}"
            )
        if rows.setdefault(row[0], row[1:]) != row[1:]:
            raise TopologyError(f"{row[0]} has two rows, which differ")
    for missing in (one for one in labels if len(rows.get(one, ())) < len(labels)):
        raise TopologyError(
            f"the table has no row of {len(labels)} cells for {missing}"
        )
    cells = {one: dict(zip(labels, rows[one], strict=False)) for one in labels}
    return Table(labels, cells, {one: rows[one][len(labels) :] for one in labels})


def titled(
    lines: list[str], title: re.Pattern[str], label: re.Pattern[str]
) -> dict[str, Table]:
    """The tables below titles, each with its columns in the line after the title.

    A table ends at an empty line or at the next title; one whose columns are not all
    labels of devices is left out.

    Raises
    ------
    TopologyError
        If two tables of a title differ, or rows are not those of the columns.
    """
    starts = [
        (i, found) for i, line in enumerate(lines) if (found := title.search(line))
    ]
    ends = [*(i for i, _ in starts), len(lines)][1:]
    tables: dict[str, Table] = {}
    for (start, found), end in zip(starts, ends, strict=True):
        rows = "\n".join(lines[start + 1 : end]).strip("\n").split("\n\n")[0]
        header, *body = rows.split("\n")
        labels = words(header)
        if labels and all(label.fullmatch(word) for word in labels):
            name, new = found[1].strip(), table(labels, body, label)
            if tables.setdefault(name.lower(), new) != new:
                raise TopologyError(
                    f"line {start + 1}: a second table of {name} differs from the first"
                )
    return tables


def symmetric(found: Table) -> list[str]:
    """Take the cells of the earlier row where both directions differ; say which."""
    differ = [
        (a, b)
        for i, b in enumerate(found.labels)
        for a in found.labels[:i]
        if found.cells[a][b] != found.cells[b][a]
    ]
    warnings = []
    for a, b in differ:
        taken, back = found.cells[a][b], found.cells[b][a]
        warnings.append(
            f"{a} - {b}: {taken} in one direction, {back} back; {taken} is used"
        )
        found.cells[b][a] = taken
    return warnings
