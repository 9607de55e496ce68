"""The configuration of OpenSM's torus-2QoS routing: the size of a torus of switches."""

import math
import re

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, grid
from collalgo.topology.model import Kind, Topology
from collalgo.topology.values import integer

SIZE = re.compile(r"^[ \t]*(torus|mesh)[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)", re.MULTILINE)


def recognises(text: str) -> bool:
    """The line with the size of the torus."""
    found = SIZE.search(text)
    return bool(found and all(re.match(r"\d+[mMtT]?$", g) for g in found.groups()[1:]))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology with switches; the file gives neither names nor hosts."""
    found = SIZE.search(text)
    if found is None:
        raise TopologyError("there is no line that begins with torus or mesh")
    kind, *sizes = found.groups()
    dims = [integer(size.rstrip("mMtT"), "a radix", 1, 1024) for size in sizes]
    wraps = [_wraps(size, kind) for size in sizes]
    if math.prod(dims) > 100_000:
        raise TopologyError(f"{math.prod(dims)} switches are more than 100000")
    if len({w for w, d in zip(wraps, dims, strict=True) if d > 2}) > 1:
        topology.warn("only some dimensions wrap; all are assumed to wrap")
    switches = [topology.add(f"switch{i}", Kind.SWITCH) for i in range(math.prod(dims))]
    grid(topology, switches, dims, Cable(None), wraps=any(wraps))
    topology.warn("the file gives neither hosts nor speeds")


def _wraps(size: str, kind: str) -> bool:
    last = size[-1].lower()
    return last == "t" if last in "mt" else kind == "torus"
