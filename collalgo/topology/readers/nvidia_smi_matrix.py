"""The text of ``nvidia-smi topo -m``: its header, and the cells of its rows.

Pasted text may have columns that run together, as ``GPU7CPU Affinity`` or
``NV120-31``; they are taken apart where only one way is possible.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.readers.matrix import WIDEST, Table, symmetric, words

#: PCI path types from the nearest to the farthest.
NEARNESS = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
LINKS = re.compile(r"NV([1-9]\d{0,2})")

#: The most NVLinks of any GPU.
MOST_NVLINKS = 36

#: The cells of ``-p2p``, which are permissions.
PERMISSIONS = ("OK", "CNS", "GNS", "TNS", "NS", "U")

LABEL = re.compile(r"(?:GPU|NIC)\d+|[a-z]\w*")
_PATH = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS|X")
_GLUED_LABEL = re.compile(rf"((?:GPU|NIC)\d+|[a-z][a-z0-9_]*)((?:{_PATH.pattern}).*)")


class Matrix(NamedTuple):
    """A matrix of paths, and whether its rows end with NUMA nodes."""

    table: Table
    has_numa: bool
    warnings: list[str]


def read(lines: list[str]) -> Matrix:
    """The matrix of the lines of a text."""
    labels, has_numa, start = _header(lines)
    if len(labels) > WIDEST:
        raise TopologyError(f"{len(labels)} devices are more than {WIDEST}")
    warnings: list[str] = []
    rows = _rows(lines[start:], start, labels, warnings)
    for label in labels:
        if label not in rows:
            raise TopologyError(
                f"the table has no row of {len(labels)} cells for {label}"
            )
        _part_last(rows, label, labels, warnings)
    cells = {a: dict(zip(labels, rows[a], strict=False)) for a in labels}
    table = Table(labels, cells, {a: rows[a][len(labels) :] for a in labels})
    _check(table)
    has_cores = any("CPU Affinity" in line for line in lines[:start])
    warnings += _shorter(table, has_cores)
    return Matrix(table, has_numa, warnings + symmetric(table))


def _header(lines: list[str]) -> tuple[list[str], bool, int]:
    """The columns, which may continue on the next lines, and the line after them."""
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise TopologyError("there is no header with GPU0 and the other devices")
    labels: list[str] = []
    for i, line in enumerate(lines[start:], start):
        row = words(line)
        if row and labels and len(row) > 1 and _row_of(row, labels):
            return labels, False, i
        for word in (part for cell in row for part in _split_cell(cell)):
            if word.startswith(("CPU", "NUMA")):
                return labels, "NUMA Affinity" in " ".join(row), i + 1
            if LABEL.fullmatch(word) and word not in labels:
                labels.append(word)
    return labels, False, len(lines)


def _is_header(line: str) -> bool:
    row = [part for cell in words(line)[:2] for part in _split_cell(cell)]
    return row[:1] == ["GPU0"] and not _is_path(" ".join(row[1:2]))


def _split_cell(cell: str) -> list[str]:
    """The columns that run together in a word of the header."""
    found = re.fullmatch(r"((?:(?:GPU|NIC)\d+)+)((?:CPU|NUMA).*)?", cell)
    if found is None:
        return [cell]
    return re.findall(r"(?:GPU|NIC)\d+", found[1]) + ([found[2]] if found[2] else [])


def _is_path(word: str) -> bool:
    links = LINKS.fullmatch(word)
    return word in NEARNESS or bool(links and int(links[1]) <= MOST_NVLINKS)


def _row_of(row: list[str], labels: list[str]) -> list[str] | None:
    """The label of a row and its words, which may run together; None for others."""
    if row[0] in labels:
        return row
    found = _GLUED_LABEL.fullmatch(row[0])
    return [*found.groups(), *row[1:]] if found and found[1] in labels else None


def _rows(
    lines: list[str], start: int, labels: list[str], warnings: list[str]
) -> dict[str, list[str]]:
    """The cells of each row by its label."""
    rows: dict[str, list[str]] = {}
    for i, line in enumerate(lines, start + 1):
        if rows and _is_header(line):
            warnings.append(f"line {i}: a second matrix begins here and is ignored")
            break
        words_of = words(line)
        row = _row_of(words_of, labels) if words_of else None
        cells = [piece for word in (row or [])[1:] for piece in _pieces(word)]
        if row is None or len(cells) < len(labels):
            _check_column(words_of, labels, i)
            continue
        if any(_is_path(cell) for cell in cells[len(labels) :]):
            raise TopologyError(
                f"line {i}: the row of {row[0]} has more than {len(labels)} paths, but "
                f"the header has {len(labels)} devices"
            )
        if rows.setdefault(row[0], cells) != cells:
            raise TopologyError(f"line {i}: {row[0]} has two rows, which differ")
    return rows


def _check_column(row: list[str], labels: list[str], line: int) -> None:
    """Refuse the row of a device that has no column."""
    is_row = len(row) > 1 and LABEL.fullmatch(row[0]) and _is_path(_pieces(row[1])[0])
    if is_row and row[0] not in labels:
        raise TopologyError(
            f"line {line}: {row[0]} has a row but no column; the columns are "
            f"{', '.join(labels)}"
        )


def _pieces(word: str) -> list[str]:
    """The cells that run together in a word, where they can be parted in one way."""
    pieces, rest = [], word
    while found := _PATH.match(rest):
        pieces.append(found[0])
        rest = rest[found.end() :]
    if pieces and rest[:1] in ("-", ",") and pieces[-1].startswith("NV"):
        return [*pieces[:-1], pieces[-1] + rest]  # see _part_last
    if not pieces or (rest and not re.match(r"\d|N/A", rest)):
        return [word]
    return [*pieces, rest] if rest else pieces


def _part_last(
    rows: dict[str, list[str]], label: str, labels: list[str], warnings: list[str]
) -> None:
    """Part "NV120-31" in the last column by the opposite cell, which is NV12."""
    last, row, end = labels[-1], rows[label], len(labels) - 1
    back = rows[last][labels.index(label)] if last in rows else ""
    cell, rest = row[end], row[end].removeprefix(back)
    if _is_path(cell) or not LINKS.fullmatch(back) or not re.match(r"\d", rest):
        return
    row[end : end + 1] = [back, rest]
    warnings.append(
        f"{label} - {last}: {cell!r} runs together and is read as {back} and {rest}, "
        f"as {last} - {label} is {back}"
    )


def _shorter(found: Table, has_cores: bool) -> Iterator[str]:
    """Warnings of the rows of GPUs that end before those of others, or the header."""
    lengths = {a: len(rest) for a, rest in found.rest.items() if a.startswith("GPU")}
    most = max(*lengths.values(), int(has_cores))
    for label, length in lengths.items():
        if length < most:
            yield (
                f"the row of {label} has {length} columns of affinity, others {most}; "
                "it may be truncated; the missing values are unknown"
            )


def _check(found: Table) -> None:
    for a in found.labels:
        for b in found.labels:
            _check_cell(a, b, found.cells[a][b])


def _check_cell(a: str, b: str, cell: str) -> None:
    if cell in PERMISSIONS:
        raise TopologyError(
            f"{a} - {b} is {cell}: a matrix of -p2p has permissions, not "
            "paths; use nvidia-smi topo -m"
        )
    if not _is_path(cell):
        raise TopologyError(
            f"{a} - {b}: {cell!r} is not a path type; those are {', '.join(NEARNESS)} "
            f"and NV1 to NV{MOST_NVLINKS}"
        )
    if (cell == "X") != (a == b):
        raise TopologyError(f"{a} - {b}: {cell} is not possible; X is a device itself")
