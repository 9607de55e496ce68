"""Slurm's ``topology.conf``: a tree of switches, blocks, or rings of nodes."""

import re
from collections.abc import Iterator
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Topology
from collalgo.topology.readers.slurm import blocks, join_blocks, ring, switches
from collalgo.topology.readers.unknown_words import warn_of_unknown

#: The keys of a line in small letters, of the file and of ``scontrol show topology``.
KEYS = {"switchname", "switches", "nodes", "linkspeed", "level", "blockname",
        "blockindex", "blocksize", "blocksizes", "aggregatedblock",
        "ringname"}  # fmt: skip

PAIR = re.compile(r"(\w{1,40})\s{0,9}=\s{0,9}(\"[^\"]*\"|\S+)")

INCLUDE = re.compile(r"include\s+(\S+)", re.IGNORECASE)


def recognises(text: str) -> bool:
    """A line that defines a switch, a block or a ring."""
    return bool(
        re.search(
            r"^[ \t]*(SwitchName|BlockName|RingName)\s*=",
            text,
            re.MULTILINE | re.IGNORECASE,
        )
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the lines."""
    entries: dict[str, list[dict[str, Any]]] = {"switch": [], "block": [], "ring": []}
    sizes: list[int] = []
    joined: list[str] = []
    for pairs in _pairs(text, topology):
        for kind, found in entries.items():
            if f"{kind}name" in pairs:
                found.append({"name": pairs[f"{kind}name"], **pairs})
        if "aggregatedblock" in pairs:
            joined.append(pairs["aggregatedblock"])
        if "blocksizes" in pairs:
            sizes = [int(n) for n in pairs["blocksizes"].split(",") if n.isdigit()]
    if entries["switch"]:
        switches(topology, entries["switch"])
    if entries["block"]:
        blocks(topology, entries["block"], sizes)
        join_blocks(topology, joined)
    for entry in entries["ring"]:
        ring(topology, entry)


def _pairs(text: str, topology: Topology) -> Iterator[dict[str, str]]:
    """The pairs of each line, their names in small letters."""
    for number, line in _lines(text):
        _check_line(topology, number, line)
        pairs = {key.lower(): value.strip('"') for key, value in PAIR.findall(line)}
        what = f"line {number} has the key"
        warn_of_unknown(topology, what, pairs, KEYS)
        if "linkspeed" in pairs:
            topology.warn("LinkSpeed has no unit in Slurm and is ignored")
        yield pairs


def _check_line(topology: Topology, number: int, line: str) -> None:
    """Refuse a line that includes another file; warn of words outside of pairs.

    Raises
    ------
    TopologyError
        If it includes a file, whose switches would be missing.
    """
    if found := INCLUDE.match(line):
        raise TopologyError(
            f"line {number}: other files are not read; put the lines of "
            f"{found[1][:60]} in place of this one"
        )
    if rest := PAIR.sub("", line).split():
        topology.warn(f"line {number}: {rest[0][:60]!r} is not NAME=VALUE and omitted")


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, each with its number, continued ones joined."""
    found, begun, start = [], "", 1
    for number, line in enumerate(text.splitlines(), 1):
        begun += line.removesuffix("\\") + " "
        if not line.endswith("\\"):
            found.append((start, begun.split("#", 1)[0].strip()))
            begun, start = "", number + 1
    return [*found, (start, begun.split("#", 1)[0].strip())]
