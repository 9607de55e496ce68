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


def table(labels: list[str], lines: list[str]) -> Table:
    """The rows that begin with one of the labels, in any order."""
    if len(labels) > WIDEST:
        raise TopologyError(f"{len(labels)} devices are more than {WIDEST}")
    cells: dict[str, dict[str, str]] = {}
    rest: dict[str, list[str]] = {}
    for line in lines:
        row = words(line)
        if len(row) <= len(labels) or row[0] not in labels or row[0] in cells:
            continue
        if row[1] in labels:  # the header
            continue
        cells[row[0]] = dict(zip(labels, row[1:], strict=False))
        rest[row[0]] = row[1 + len(labels) :]
    missing = [label for label in labels if label not in cells]
    if missing:
        raise TopologyError(
            f"the table has no row of {len(labels)} cells for {missing[0]}"
        )
    return Table(labels, cells, rest)


def titled(
    lines: list[str], title: re.Pattern[str], label: re.Pattern[str]
) -> dict[str, Table]:
    """The tables below titles, each with its columns in the line after the title.

    A table ends at an empty line or at the next title; one whose columns are not all
    labels of devices is left out.
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
            tables.setdefault(found[1].strip(), table(labels, body))
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
            f"{a} - {b}: {taken} in one direction, {back} back; {taken} is taken"
        )
        found.cells[b][a] = taken
    return warnings
