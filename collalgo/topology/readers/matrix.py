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
    return [ANSI.sub("", line).rstrip() for line in text.splitlines()]


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


def symmetric(found: Table) -> list[str]:
    """Warnings of cells that differ from those of the opposite direction."""
    return [
        f"{a} - {b}: {found.cells[a][b]} in one direction, {found.cells[b][a]} back"
        for i, a in enumerate(found.labels)
        for b in found.labels[:i]
        if found.cells[a][b] != found.cells[b][a]
    ]
