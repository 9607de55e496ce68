"""Machines and fabrics as graphs: read, built, detected, compared and drawn.

Bandwidths are in GB/s (10^9 bytes per second) for each direction, latencies in seconds.
Unknown values are None; assumed values are named in ``Link.assumed``.
"""

from collalgo.base.hooks import register
from collalgo.topology.model import Device, Kind, Link, LinkKind, Topology
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import Path, best_path

__all__ = [
    "Device",
    "Kind",
    "Link",
    "LinkKind",
    "Path",
    "PathType",
    "Topology",
    "best_path",
]

# The constructors of Topology, and what derives one from another; of(comm) belongs to
# the layer of communicators.
register("Topology.load", "collalgo.topology.presets:load")
register("Topology.read", "collalgo.topology.readers:read")
register("Topology.detect", "collalgo.topology.detect:detect")
register("Topology.without", "collalgo.topology.faults:without")
register("Topology.degraded", "collalgo.topology.faults:degraded")
register("Topology.write", "collalgo.topology.document:write")
register("Topology.svg", "collalgo.topology.draw:svg")
register("Topology.obstacle to a picture", "collalgo.topology.draw:obstacle")
