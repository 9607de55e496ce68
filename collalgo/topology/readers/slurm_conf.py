"""Slurm's ``topology.conf``: a tree of switches, blocks, or rings of nodes."""

import re
from typing import Any

from collalgo.topology.model import Topology
from collalgo.topology.readers.slurm import blocks, ring, switches

PAIR = re.compile(r"(\w{1,40})\s{0,9}=\s{0,9}(\"[^\"]*\"|\S+)")


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
    for line in _lines(text):
        pairs = {key.lower(): value.strip('"') for key, value in PAIR.findall(line)}
        for kind, found in entries.items():
            if f"{kind}name" in pairs:
                found.append({"name": pairs[f"{kind}name"], **pairs})
        if "blocksizes" in pairs:
            sizes = [int(n) for n in pairs["blocksizes"].split(",") if n.isdigit()]
        if "linkspeed" in pairs:
            topology.warn("LinkSpeed has no unit in Slurm and is ignored")
    if entries["switch"]:
        switches(topology, entries["switch"])
    if entries["block"]:
        blocks(topology, entries["block"], sizes)
    for entry in entries["ring"]:
        ring(topology, entry)


def _lines(text: str) -> list[str]:
    """Lines without comments, continued ones joined."""
    joined = text.replace("\\\n", " ")
    return [line.split("#", 1)[0] for line in joined.splitlines()]
