"""Shared parts of the readers of Slurm's two topology files."""

from itertools import pairwise
from typing import Any

from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, grid, wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.values import integer

#: A cable of unknown speed, as Slurm gives none.
UNKNOWN = Cable(None)

#: The most levels of switches.
MOST_LEVELS = 100

Entry = dict[str, Any]


#: The warning of an element that lists nothing.
EMPTY = "lists neither nodes nor switches; its line may be truncated"


def host(topology: Topology, name: str) -> str:
    """The host of a name, added at first use."""
    return name if name in topology else topology.add(name, Kind.HOST, name=name)


def switches(topology: Topology, entries: list[Entry]) -> None:
    """Add trees; an entry lists the switches or the nodes below a switch.

    The output of ``scontrol show topology`` lists at an upper switch also all nodes
    below its switches; these are linked to their own switch only.
    """
    _add_switches(topology, entries)
    parents: dict[str, str] = {}
    for entry in entries:
        for child in _children(entry):
            if child not in topology:
                raise TopologyError(
                    f"switch {entry['name']} lists switch {child}, which is not defined"
                )
            _under(topology, parents, child, entry["name"])
    for entry in entries:
        for child in _children(entry):
            _above(parents, child, entry["name"])
    _check_levels(entries)
    for entry in sorted(entries, key=lambda entry: bool(_children(entry))):
        for node in _nodes(entry):
            if entry["name"] not in _above(parents, node, parents.get(node)):
                _under(topology, parents, host(topology, node), entry["name"])


def _add_switches(topology: Topology, entries: list[Entry]) -> None:
    for entry in entries:
        name = entry["name"]
        if name in topology:
            raise TopologyError(f"switch {name} is defined twice")
        topology.add(name, Kind.SWITCH, name=name)
        if not (_children(entry) or _nodes(entry)):
            topology.warn(f"switch {name} {EMPTY}")


def _check_levels(entries: list[Entry]) -> None:
    """Refuse levels, as scontrol prints them, that the switches contradict."""
    levels = {
        entry["name"]: integer(entry["level"], f"Level of {entry['name']}")
        for entry in entries
        if "level" in entry
    }
    for entry in entries:
        name, below = entry["name"], _children(entry)
        if name not in levels:
            continue
        for child in (c for c in below if levels.get(c, -1) >= levels[name]):
            raise TopologyError(
                f"switch {name} of Level={levels[name]} lists switch {child} of Level="
                f"{levels[child]}, which must be lower"
            )
        if levels[name] and not below and _nodes(entry):
            raise TopologyError(
                f"switch {name} has Level={levels[name]} but lists no switches; a "
                "switch of nodes has Level=0"
            )


def _children(entry: Entry) -> list[str]:
    return expand(str(entry.get("switches") or entry.get("children") or ""))


def _nodes(entry: Entry) -> list[str]:
    nodes = expand(str(entry.get("nodes") or ""))
    if "ALL" in nodes:
        raise TopologyError(
            f"{entry['name']} has Nodes=ALL, but the file does not list them; write "
            "the names of the nodes in place of ALL"
        )
    return nodes


def _above(parents: dict[str, str], below: str, top: str | None) -> list[str]:
    """The switches from one that is above another to the root."""
    found: list[str] = []
    while top is not None:
        if top == below:
            raise TopologyError(f"switch {below} is below itself")
        found.append(top)
        if len(found) > MOST_LEVELS:
            raise TopologyError(f"{below} is below more than {MOST_LEVELS} switches")
        top = parents.get(top)
    return found


def _under(topology: Topology, parents: dict[str, str], child: str, top: str) -> None:
    if parents.setdefault(child, top) != top:
        topology.warn(f"{child} is below {parents[child]} and {top}")
    wire(topology, child, top, UNKNOWN)


def blocks(topology: Topology, entries: list[Entry], sizes: list[int]) -> None:
    """Add blocks of nodes, and larger blocks of these by their sizes."""
    level = []
    for entry in entries:
        block = topology.add(entry["name"], Kind.SWITCH, name=entry["name"], level=1)
        if not _nodes(entry):
            topology.warn(f"block {block} {EMPTY}")
        for node in _nodes(entry):
            wire(topology, host(topology, node), block, UNKNOWN)
        level.append(block)
    for smaller, size in pairwise(sizes):
        each = size // smaller if smaller else 0
        if each < 2 or size % smaller:
            raise TopologyError(f"block size {size} must be a multiple of {smaller}")
        groups = [level[i : i + each] for i in range(0, len(level), each)]
        if len(level) < 2:
            break
        level = [_join(topology, f"block{size}-{i}", g) for i, g in enumerate(groups)]


def join_blocks(topology: Topology, ranges: list[str]) -> None:
    """Add a switch above the blocks of each range, as of ``scontrol show topology``."""
    tops: dict[str, str] = {}
    for number, blocks in enumerate(ranges):
        names = expand(blocks)
        for name in names:
            if name not in topology:
                raise TopologyError(
                    f"AggregatedBlock={blocks} lists block {name}, which is not defined"
                )
        below = list(dict.fromkeys(tops.get(name, name) for name in names))
        above = _join(topology, f"aggregate{number}", below)
        tops |= dict.fromkeys(names, above)


def _join(topology: Topology, name: str, below: list[str]) -> str:
    above = topology.add(name, Kind.SWITCH)
    for switch in below:
        wire(topology, switch, above, UNKNOWN)
    return above


def ring(topology: Topology, entry: Entry) -> None:
    """Add a ring of nodes."""
    nodes = [host(topology, node) for node in _nodes(entry)]
    if nodes:
        grid(topology, nodes, [len(nodes)], UNKNOWN)
    else:
        topology.warn(f"ring {entry['name']} {EMPTY}")
