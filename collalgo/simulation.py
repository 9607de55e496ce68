"""What a schedule costs on a topology, step by step, and which link is in its way.

The model is synchronous: all ranks begin a step together. A step takes the longest
latency of its messages, the time of the link that its bytes keep busy longest, and what
the busiest rank reduces. A message takes the best path between its devices; links carry
their bandwidth in each direction at once.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from collalgo.algorithms import find
from collalgo.bounds import BOUNDED, Bound, bound
from collalgo.collective import COLLECTIVES
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction, trace
from collalgo.sizes import human, human_time
from collalgo.topology.model import Kind, Link, Topology
from collalgo.topology.paths import Path, PathType, paths_from
from collalgo.transfers import TransferTable

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

#: A direction of a link: from its first end to its second, or back.
Way = tuple[Link, bool]


class StepCost(NamedTuple):
    """What one step takes, in seconds."""

    latency: float
    transfer: float
    reduction: float
    bottleneck: Way | None  #: the direction of the link that carries most

    @property
    def seconds(self) -> float:
        """The step in all."""
        return self.latency + self.transfer + self.reduction


class Simulation(NamedTuple):
    """What a schedule takes on a topology.

    Attributes
    ----------
    collective, algorithm : str
        Which.
    nbytes : float
        Of the buffer.
    steps : tuple of StepCost
        What each step takes.
    bound : Bound or None
        How fast the collective can be there by bandwidth, if that is known.
    """

    collective: str
    algorithm: str
    nbytes: float
    steps: tuple[StepCost, ...]
    bound: Bound | None

    @property
    def seconds(self) -> float:
        """All steps together."""
        return sum(step.seconds for step in self.steps)

    @property
    def ratio(self) -> float | None:
        """How many times as long as the bound; None without one."""
        least = self.bound.seconds(self.nbytes) if self.bound else 0.0
        return self.seconds / least if least else None

    @property
    def bottleneck(self) -> Way | None:
        """The direction of a link that holds up the steps longest."""
        times: dict[Way, float] = defaultdict(float)
        for step in self.steps:
            if step.bottleneck is not None:
                times[step.bottleneck] += step.transfer
        return max(times, key=times.__getitem__, default=None)

    def __str__(self) -> str:
        waiting = sum(step.latency for step in self.steps)
        text = (
            f"{self.collective} by {self.algorithm} of {human(self.nbytes)}: "
            f"{human_time(self.seconds)} in {len(self.steps)} steps, "
            f"{human_time(waiting)} of it latency"
        )
        way = self.bottleneck
        if way is not None:
            link, forth = way
            a, b = link.ends if forth else link.ends[::-1]
            held = sum(step.transfer for step in self.steps if step.bottleneck == way)
            text += (
                f"\nbottleneck: {link.kind.value} from {a} to {b} ({link.bandwidth:g} "
                f"GB/s), for {human_time(held)}"
            )
        if self.bound is not None and self.ratio is not None:
            least = human_time(self.bound.seconds(self.nbytes))
            text += f"\n{self.ratio:.2f} times the bound of {least}: "
            text += self.bound.reason
        return text


def simulate(
    algorithm: str | ScheduleFunction,
    topology: Topology,
    nbytes: float,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
    reduction: float = 0.0,
) -> Simulation:
    """What a schedule costs on a topology.

    Parameters
    ----------
    algorithm
        A name of the table, which may give parameters, or a function of a group.
    topology
        The machine; its GPUs, or where there are none its hosts, are the ranks.
    nbytes
        Of the whole buffer.
    collective
        What the schedule does.
    root
        The rank of the root.
    order
        The device of each rank; by default in the order of the topology. See
        ``collalgo.topology.orders``.
    reduction
        Seconds to reduce a byte.

    Raises
    ------
    TopologyError
        If ranks cannot reach each other, or the order is none of the devices.
    """
    places = list(order or ranks_of(topology))
    if len(set(places)) < len(places) or not set(places) <= set(topology.graph):
        raise TopologyError("every rank of an order needs a device of its own")
    size = len(places)
    if isinstance(algorithm, str):
        name, schedule = algorithm, find(collective, algorithm, size).schedule
    else:
        name, schedule = getattr(algorithm, "__name__", "schedule"), algorithm
    table = TransferTable([trace(schedule, rank, size, root) for rank in range(size)])
    network = Roads(topology, places)
    whole = nbytes * COLLECTIVES[collective].buffers(size)
    steps = network.steps(table, whole, reduction)
    everybody = ranks_of(topology)
    known = collective in BOUNDED and size > 1 and set(places) == set(everybody)
    at = everybody.index(places[root]) if known else 0
    limit = bound(collective, topology, at) if known else None
    return Simulation(collective, name, nbytes, steps, limit)


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

    def steps(
        self, table: TransferTable, nbytes: float, reduction: float
    ) -> tuple[StepCost, ...]:
        """What each step of a schedule takes."""
        number = table.step - table.first_step[table.rank_of[table.step]]
        share = table.share[table.place] / table.grid
        count = int(number.max(initial=-1)) + 1
        messages: list[list[tuple[int, int, float]]] = [[] for _ in range(count)]
        reduced: list[dict[int, float]] = [defaultdict(float) for _ in range(count)]
        for i, kind in enumerate(table.kind):
            rank = int(table.rank_of[table.step[i]])
            if kind == 0 and table.peer[i] != rank:
                what = (rank, int(table.peer[i]), float(share[i]))
                messages[number[i]].append(what)
            elif kind == 2:
                reduced[number[i]][rank] += float(share[i])
        most = [reduction * max(shares.values(), default=0.0) for shares in reduced]
        return tuple(
            self._step(messages[i], nbytes, most[i] * nbytes) for i in range(count)
        )

    def _step(
        self, messages: list[tuple[int, int, float]], nbytes: float, reduction: float
    ) -> StepCost:
        load: dict[Way, float] = defaultdict(float)
        for source, target, share in messages:
            for way in self.ways(source, target):
                load[way] += share * nbytes
        times = {
            way: carried / (way[0].bandwidth * 1e9)
            for way, carried in load.items()
            if way[0].bandwidth
        }
        slowest = max(times, key=times.__getitem__, default=None)
        latency = max((self.latency(a, b) for a, b, _ in messages), default=0.0)
        transfer = times[slowest] if slowest is not None else 0.0
        return StepCost(latency, transfer, reduction, slowest)
