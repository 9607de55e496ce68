"""Networks of ASTRA-sim's analytical backend: a grid of dimensions of any kind."""

import math
from itertools import combinations
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import MOST_AXES, Cable, grid, star, wire
from collalgo.topology.graph import MOST_LINKS
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.text import mappings
from collalgo.topology.readers.unknown_words import warn_of_keys
from collalgo.topology.values import integer, number

KINDS = ("Ring", "Switch", "FullyConnected")
LISTS = ("topology", "npus_count", "bandwidth", "latency")

#: The most NPUs.
LARGEST = 100_000


def recognises(text: str) -> bool:
    """Lists of kinds and counts, or the logical dimensions for ns-3."""
    return any(
        {"topology", "npus_count"} <= set(entry) or "logical-dims" in entry
        for entry in mappings(text)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology; the first dimension is the innermost."""
    entry = mappings(text)[0]
    if "logical-dims" in entry:
        raise TopologyError(
            f"logical-dims {entry['logical-dims']} are only the dimensions of a "
            "network; read the file of the network instead"
        )
    warn_of_keys(topology, "the network", entry, LISTS)
    kinds, counts, bandwidths, latencies = _lists(entry)
    dims = [integer(n, f"npus_count {str(n)[:20]}", 1, LARGEST) for n in counts]
    _check(kinds, dims)
    npus = [topology.add(f"npu{i}", Kind.GPU) for i in range(math.prod(dims))]
    for axis, kind in enumerate(kinds):
        bandwidth = number(bandwidths[axis], f"bandwidth of dimension {axis}")
        latency = number(latencies[axis], f"latency of dimension {axis}") * 1e-9
        for i, line in enumerate(_lines(npus, dims, axis)):
            _join(topology, line, kind, Cable(bandwidth, latency), f"switch{axis}-{i}")
    if "Switch" in kinds:
        topology.warn("ASTRA-sim counts the latency of a switch twice, up and down")


def _check(kinds: list[Any], dims: list[int]) -> None:
    """Refuse unknown kinds, and more NPUs or links than a topology may have."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise TopologyError(
            f"unknown topology {str(unknown[0])[:40]!r}; choose from {', '.join(KINDS)}"
        )
    total = math.prod(dims)
    if total > LARGEST:
        raise TopologyError(f"{total} NPUs are more than {LARGEST}")
    full = [n for n, kind in zip(dims, kinds, strict=True) if kind == "FullyConnected"]
    links = sum(total * (n - 1) // 2 for n in full) + total * (len(dims) - len(full))
    if links > MOST_LINKS:
        raise TopologyError(f"{links} links of {total} NPUs are more than {MOST_LINKS}")


def _lists(entry: dict[str, Any]) -> list[list[Any]]:
    found = [_list(entry, key) for key in LISTS]
    if len({len(values) for values in found}) != 1:
        raise TopologyError(f"the lists {', '.join(LISTS)} are of different lengths")
    if len(found[0]) > MOST_AXES:
        raise TopologyError(f"{len(found[0])} dimensions are more than {MOST_AXES}")
    return found


def _list(entry: dict[str, Any], key: str) -> list[Any]:
    value = entry.get(key)
    if not isinstance(value, list) or not value:
        raise TopologyError(f"{key} must be a list, not {str(value)[:40]!r}")
    return value


def _lines(npus: list[str], dims: list[int], axis: int) -> list[list[str]]:
    """The groups of NPUs that differ in one dimension only."""
    stride, length = math.prod(dims[:axis]), dims[axis]
    starts = [i for i in range(len(npus)) if i // stride % length == 0]
    return [[npus[s + k * stride] for k in range(length)] for s in starts]


def _join(
    topology: Topology, line: list[str], kind: str, cable: Cable, name: str
) -> None:
    if len(line) < 2:
        return
    if kind == "Switch":
        star(topology, line, name, cable)
    elif kind == "FullyConnected":
        for a, b in combinations(line, 2):
            wire(topology, a, b, cable)
    else:
        grid(topology, line, [len(line)], cable)
