"""The paths that messages take between the devices of ranks."""

from collections.abc import Sequence

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, Link, Topology
from collalgo.topology.paths import Path, PathType, paths_from

#: Seconds of a message by the type of its path, where its links do not tell: what NCCL
#: 2.30 reckons for a hop of its protocol for short messages.
LATENCY = {
    PathType.LOC: 0.0,
    PathType.NVL: 0.6e-6,
    PathType.NVB: 1.2e-6,
    PathType.C2C: 0.6e-6,
    PathType.PIX: 1.0e-6,
    PathType.PXB: 1.0e-6,
    PathType.PHB: 1.0e-6,
    PathType.NODE: 1.0e-6,
    PathType.SYS: 1.0e-6,
    PathType.NET: 2.7e-6,
}

#: Seconds for each message of a rank in a step beyond the first: a rank sends and
#: receives one at a time.
MESSAGE = 0.3e-6

#: A direction of a link: from its first end to its second, or back.
Way = tuple[Link, bool]


def ranks_of(topology: Topology) -> list[str]:
    """The devices that are ranks: the GPUs, or where there are none the hosts."""
    gpus = [gpu.id for gpu in topology.devices(Kind.GPU)]
    return gpus or topology.hosts


class Roads:
    """The paths between the devices of the ranks."""

    def __init__(self, topology: Topology, places: Sequence[str]):
        self.topology = topology
        self.places = places
        self._paths: dict[str, dict[str, Path]] = {}

    def reordered(self, places: Sequence[str]) -> "Roads":
        """The same roads for ranks in other places."""
        other = Roads(self.topology, places)
        other._paths = self._paths
        return other

    def path(self, source: int, target: int) -> Path:
        """The path from a rank to another."""
        a, b = self.places[source], self.places[target]
        if a not in self._paths:
            self._paths[a] = paths_from(self.topology, a)
        if b not in self._paths[a]:
            raise TopologyError(f"{self.topology.name}: {a} cannot reach {b}")
        return self._paths[a][b]

    def ways(self, source: int, target: int) -> list[Way]:
        """The links of a path, each with its direction."""
        path = self.path(source, target)
        return [
            (link, link.ends[0] == device)
            for device, link in zip(path.devices, path.links, strict=False)
        ]

    def latency(self, source: int, target: int) -> float:
        """Seconds of the first byte."""
        path = self.path(source, target)
        told = [link.latency for link in path.links if link.latency is not None]
        return sum(told) if told else LATENCY[path.type]
