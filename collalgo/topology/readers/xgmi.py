"""The xGMI links that the tables of ``rocm-smi`` and ``amd-smi`` show."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from collalgo.topology.model import LinkKind, Topology
from collalgo.topology.readers.matrix import Table, symmetric

#: The words of a pair whose GPUs cannot read each other's memory.
NO_ACCESS = ("DISABLED", "FALSE")

#: The words of a pair that the driver could not read.
UNREAD = ("XXXX", "N/A", "UNKNOWN", "NOT_APPLICABLE")

#: The link types of pairs.
TYPES = ("XGMI", "PCIE", "PCI")


#: The labels of two GPUs.
Pair = tuple[str, str]


class Tables(NamedTuple):
    """The tables of a file, each by the labels of the GPUs; None for a missing one.

    ``bandwidth`` has the MB/s of the narrowest and the widest link, as "50000-100000".
    """

    type: Table
    hops: Table | None = None
    weight: Table | None = None
    access: Table | None = None
    bandwidth: Table | None = None


def add_links(topology: Topology, ids: Mapping[str, str], tables: Tables) -> bool:
    """Add a link for each pair whose tables show one, and return if all have one.

    A pair by XGMI without a link of its own is a warning.
    """
    labels = tables.type.labels
    pairs = [(b, a) for i, a in enumerate(labels) for b in labels[:i]]
    for complaint in _complaints(tables, pairs):
        topology.warn(complaint)
    joined = [pair for pair in pairs if _cell(tables.type, pair) == "XGMI"]
    least = min((w for pair in joined if (w := _weight(tables, pair))), default=0)
    for pair in pairs:
        kind = _cell(tables.type, pair)
        ends = (ids[pair[0]], ids[pair[1]])
        if kind in UNREAD:
            topology.warn(f"{ends[0]} - {ends[1]}: the tool could not read the link")
        elif kind == "XGMI" and (reason := _obstacle(tables, pair, least)):
            topology.warn(f"{ends[0]} - {ends[1]}: {reason}; they have no direct link")
        elif kind == "XGMI":
            topology.link(*ends, LinkKind.XGMI, _bandwidth(tables, pair))
    return len(topology.links) == len(pairs)


def _complaints(tables: Tables, pairs: Sequence[Pair]) -> Iterator[str]:
    """The impossible values of the tables, each with its replacement.

    Access is not compared: a pair without access in one direction has no link.
    """
    checks = {
        "link type": (tables.type, _is_type, "a link type"),
        "hops": (tables.hops, str.isdigit, "a number"),
        "weight": (tables.weight, str.isdigit, "a number"),
        "bandwidth": (tables.bandwidth, _is_range, "a range of MB/s, as 50000-100000"),
    }
    for title, (table, is_right, what) in checks.items():
        if table is None:
            continue
        if table.labels != tables.type.labels:
            yield f"the table of {title} has other GPUs than that of link types"
        for complaint in (*_wrong(table, pairs, is_right, what), *symmetric(table)):
            yield f"{title} of {complaint}"


def _wrong(
    table: Table, pairs: Sequence[Pair], is_right: Callable[[str], bool], what: str
) -> Iterator[str]:
    """Replace wrong and unread cells by those of the other direction; say which."""
    for a, b in (each for pair in pairs for each in (pair, pair[::-1])):
        cell, back = _both(table, (a, b))
        is_known = back not in (*UNREAD, "0") and is_right(back)
        if cell in (*UNREAD, "0"):
            if is_known:
                yield f"{a} - {b}: {cell} in one direction, {back} back; {back} is used"
                table.cells[a][b] = back
        elif cell and not is_right(cell):
            taken = back if is_known else "N/A"
            yield f"{a} - {b}: {cell[:40]!r} is not {what}; {taken} is used"
            table.cells[a][b] = taken


def _is_type(cell: str) -> bool:
    return cell in TYPES


def _is_range(cell: str) -> bool:
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", cell)
    return found is not None and int(found[1]) <= int(found[2])


def _obstacle(tables: Tables, pair: Pair, least: int) -> str | None:
    """The reason why an xGMI path is not a link: through other GPUs, or barred."""
    barred = [cell for cell in _both(tables.access, pair) if cell in NO_ACCESS]
    if barred:
        return f"access is {barred[0]}"
    if (hops := _cell(tables.hops, pair)).isdigit() and hops != "1":
        return f"XGMI of {hops} hops"
    bandwidth = _bandwidth(tables, pair)
    if bandwidth == 0:
        return f"XGMI of bandwidth {_cell(tables.bandwidth, pair)}"
    weight = _weight(tables, pair)
    if bandwidth is None and weight and weight >= 2 * least:
        return f"XGMI of weight {weight}, where a link has {least}"
    return None


def _both(table: Table | None, pair: Pair) -> list[str]:
    a, b = pair
    return [_cell(table, (a, b)), _cell(table, (b, a))]


def _cell(table: Table | None, pair: Pair) -> str:
    """A cell in capitals; "" without a table or a row."""
    return table.cells.get(pair[0], {}).get(pair[1], "").upper() if table else ""


def _weight(tables: Tables, pair: Pair) -> int:
    """The distance of a pair: 15 for one link; 0 if unknown."""
    cell = _cell(tables.weight, pair)
    return int(cell) if re.fullmatch(r"[0-9]{1,6}", cell) else 0


def _bandwidth(tables: Tables, pair: Pair) -> float | None:
    """GB/s in each direction of all links of a pair; None if unknown."""
    cell = _cell(tables.bandwidth, pair)
    return int(cell.partition("-")[2]) / 1000 if _is_range(cell) else None
