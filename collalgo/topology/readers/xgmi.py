"""The xGMI links that the tables of ``rocm-smi`` and ``amd-smi`` show."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from collalgo.topology.model import LinkKind, Topology
from collalgo.topology.readers.matrix import Table, symmetric
from collalgo.topology.readers.text import number

#: The words of a pair whose GPUs cannot read each other's memory.
NO_ACCESS = ("DISABLED", "FALSE")

#: The words of a pair that the driver could not read.
UNREAD = ("XXXX", "N/A", "UNKNOWN", "NOT_APPLICABLE")


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
    for complaint in symmetric(tables.type):
        topology.warn(f"link type of {complaint}")
    labels = tables.type.labels
    pairs = [(b, a) for i, a in enumerate(labels) for b in labels[:i]]
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


def _obstacle(tables: Tables, pair: tuple[str, str], least: int) -> str | None:
    """Why an xGMI path is not a link: it leads through other GPUs, or is barred."""
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


def _both(table: Table | None, pair: tuple[str, str]) -> list[str]:
    a, b = pair
    return [_cell(table, (a, b)), _cell(table, (b, a))]


def _cell(table: Table | None, pair: tuple[str, str]) -> str:
    """A cell in capitals; "" without a table or a row."""
    return table.cells.get(pair[0], {}).get(pair[1], "").upper() if table else ""


def _weight(tables: Tables, pair: tuple[str, str]) -> int:
    """The distance of a pair: 15 for one link; 0 if unknown."""
    cell = _cell(tables.weight, pair)
    return int(cell) if re.fullmatch(r"[0-9]{1,6}", cell) else 0


def _bandwidth(tables: Tables, pair: tuple[str, str]) -> float | None:
    """GB/s in each direction of all links of a pair; None if unknown."""
    found = re.fullmatch(r"\d+-(\d+)", _cell(tables.bandwidth, pair))
    what = f"{pair[0]} - {pair[1]} bandwidth"
    return number(found[1], what) / 1000 if found else None
