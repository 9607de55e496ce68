"""Lists of links for ns-3 (of HPCC) and SimAI: numbers only.

The first line has the counts, the second the switches, and each further line a link:
its ends, rate, latency and error rate. SimAI's first line also counts GPUs and
NVSwitches.
"""

import re
from typing import NamedTuple

from collalgo.base.units import TIMES, counted
from collalgo.errors import TopologyError
from collalgo.topology.graph import LARGEST
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.values import integer, number

LINK = re.compile(
    r"(\d{1,7})\s+(\d{1,7})\s+([\d.]{1,20})(Gbps|Mbps|Kbps|bps)\s+"
    r"([\d.]{1,20})(s|ms|us|ns)(?:\s+([\d.eE+-]{1,30}))?\s*"
)
GIGABITS = {"Gbps": 1.0, "Mbps": 1e-3, "Kbps": 1e-6, "bps": 1e-9}


def recognises(text: str) -> bool:
    """Counts in the first line, and a link further down."""
    lines = text.strip().splitlines()
    return bool(
        lines
        and re.fullmatch(r"\d+\s+\d+\s+\d+(\s+\d+\s+\d+\s+\S+)?\s*", lines[0])
        and any(LINK.fullmatch(line) for line in lines[1:50])
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the list."""
    lines = text.strip().splitlines()
    counts = _counts(lines[0])
    ids = _nodes(topology, counts, _switches(lines[1], counts))
    rates = {
        i: _link(topology, ids, line.strip(), i)
        for i, line in enumerate(lines[2:], 3)
        if line.strip()
    }
    if len(rates) != counts.links:
        topology.warn(
            f"the first line counts {counts.links} links, {len(rates)} are listed"
        )
    if lossy := [f"line {i}: {rate:g}" for i, rate in rates.items() if rate > 0]:
        topology.warn(
            f"{counted(len(lossy), 'link')} with an error rate ({lossy[0]}): prices "
            "are those without errors"
        )


class Counts(NamedTuple):
    """The first line; without GPUs per server the nodes are hosts."""

    nodes: int
    per_server: int
    nvswitches: int
    switches: int
    links: int


def _counts(line: str) -> Counts:
    words = line.split()
    nodes = integer(words[0], "the number of nodes", 1, LARGEST)
    if len(words) == 3:
        switches, links = (integer(n, "a count in the first line") for n in words[1:])
        return Counts(nodes, 0, 0, switches, links)
    per_server = integer(words[1], "GPUs of a server", 1)
    nvswitches, switches, links = (integer(n, "a count") for n in words[2:5])
    return Counts(nodes, per_server, nvswitches, switches, links)


def _switches(line: str, counts: Counts) -> dict[int, Kind]:
    listed = [integer(n, "a switch", 0, counts.nodes - 1) for n in line.split()]
    total = counts.nvswitches + counts.switches
    if len(listed) != total:
        raise TopologyError(
            f"the first line counts {total} switches, the second lists {len(listed)}"
        )
    kinds = dict.fromkeys(listed[: counts.nvswitches], Kind.NVSWITCH)
    return kinds | dict.fromkeys(listed[counts.nvswitches :], Kind.SWITCH)


def _nodes(topology: Topology, counts: Counts, kinds: dict[int, Kind]) -> list[str]:
    """Add all nodes; SimAI numbers the GPUs, server by server, before all switches."""
    ids = []
    for i in range(counts.nodes):
        kind = kinds.get(i, Kind.GPU if counts.per_server else Kind.HOST)
        host = ""
        if kind is Kind.GPU:
            host = f"host{i // counts.per_server}"
        ids.append(
            topology.add(
                f"{host}/gpu{i}" if host else f"{kind.value}{i}", kind, host=host
            )
        )
    return ids


def _link(topology: Topology, ids: list[str], line: str, number_of: int) -> float:
    """Add the link of a line, and return its error rate."""
    found = LINK.fullmatch(line)
    if found is None:
        raise TopologyError(f"line {number_of}: {line[:60]!r} is not a link")
    a, b = (int(n) for n in found.groups()[:2])
    if max(a, b) >= len(ids):
        raise TopologyError(
            f"line {number_of}: node {max(a, b)} of a link, but there are {len(ids)}"
        )
    what = f"line {number_of}"
    nvlink = Kind.NVSWITCH in {topology.device(ids[n]).kind for n in (a, b)}
    topology.link(
        ids[a],
        ids[b],
        LinkKind.NVLINK if nvlink else LinkKind.NETWORK,
        number(found[3], what) * GIGABITS[found[4]] / 8,
        latency=number(found[5], what) * TIMES[found[6]],
    )
    return number(found[7] or 0, f"{what}: error rate", most=1.0)
