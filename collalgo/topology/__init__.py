"""Machines and fabrics as graphs: read, built, detected, compared and drawn.

Bandwidths are in GB/s (10^9 bytes per second) for each direction, latencies in seconds.
What nobody knows is None, and what was assumed says so.
"""

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
