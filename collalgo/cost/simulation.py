"""What a schedule costs on a topology, and which link is in its way.

Two models on the same messages, each of which takes the best path between its devices;
links carry their bandwidth in each direction at once.

- ``rounds``: all ranks begin a step together. A step takes the longest latency of its
  messages, a gap for each further message of the busiest rank, the time of the link
  that its bytes keep busy longest, and what the busiest rank reduces.
- ``fluid``: every rank goes on as its own messages come, and messages under way at the
  same time share links max-min fairly; see :mod:`collalgo.cost.fluid`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from collalgo.algorithms import find
from collalgo.collective import COLLECTIVES
from collalgo.cost.bounds import BOUNDED, Bound, bound
from collalgo.cost.fluid import Flow, Outcome, play
from collalgo.cost.roads import MESSAGE, Roads, Way, ranks_of
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction, trace
from collalgo.sizes import human, human_time
from collalgo.topology.model import Topology
from collalgo.transfers import TransferTable

MODELS = ("rounds", "fluid")

__all__ = ["MODELS", "Simulation", "ranks_of", "simulate"]


class Simulation(NamedTuple):
    """What a schedule takes on a topology.

    Attributes
    ----------
    collective, algorithm, model : str
        Which.
    nbytes : float
        Of the buffer.
    seconds : float
        Until the last rank is done.
    steps : tuple of float
        Seconds of each step, in the model of rounds.
    busy : dict
        For each direction of a link, the seconds that its bytes take.
    bound : Bound or None
        How fast the collective can be there by bandwidth, if that is known.
    """

    collective: str
    algorithm: str
    model: str
    nbytes: float
    seconds: float
    steps: tuple[float, ...]
    busy: dict[Way, float]
    bound: Bound | None

    @property
    def ratio(self) -> float | None:
        """How many times as long as the bound; None without one."""
        least = self.bound.seconds(self.nbytes) if self.bound else 0.0
        return self.seconds / least if least else None

    @property
    def bottleneck(self) -> Way | None:
        """The direction of a link that is busy longest."""
        return max(self.busy, key=self.busy.__getitem__, default=None)

    def __str__(self) -> str:
        text = (
            f"{self.collective} by {self.algorithm} of {human(self.nbytes)}: "
            f"{human_time(self.seconds)} (model: {self.model})"
        )
        way = self.bottleneck
        if way is not None:
            link, forth = way
            a, b = link.ends if forth else link.ends[::-1]
            text += (
                f"\nbottleneck: {link.kind.value} from {a} to {b} ({link.bandwidth:g} "
                f"GB/s), busy for {human_time(self.busy[way])}"
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
    model: str = "rounds",
) -> Simulation:
    """What a schedule costs on a topology.

    Parameters
    ----------
    algorithm
        A name of the table, which may give parameters, or a function of a group.
    topology
        The machine; its GPUs, or where there are none its hosts, are the ranks.
    nbytes
        Of the whole buffer; of an alltoall, of what each rank has.
    collective
        What the schedule does.
    root
        The rank of the root.
    order
        The device of each rank; by default in the order of the topology. See
        ``collalgo.topology.orders``.
    reduction
        Seconds to reduce a byte.
    model
        ``rounds`` or ``fluid``.

    Raises
    ------
    TopologyError
        If ranks cannot reach each other, or the order is none of the devices.
    """
    if model not in MODELS:
        raise TopologyError(f"no model {model!r}; choose one of {', '.join(MODELS)}")
    places = list(order or ranks_of(topology))
    if len(set(places)) < len(places) or not set(places) <= set(topology.graph):
        raise TopologyError("every rank of an order needs a device of its own")
    size = len(places)
    if isinstance(algorithm, str):
        name, schedule = algorithm, find(collective, algorithm, size).schedule
    else:
        name, schedule = getattr(algorithm, "__name__", "schedule"), algorithm
    table = TransferTable([trace(schedule, rank, size, root) for rank in range(size)])
    whole = nbytes * COLLECTIVES[collective].buffers(size)
    flows = flows_of(table, whole)
    model_of = rounds if model == "rounds" else play
    found = model_of(flows, Roads(topology, places), reduction)
    everybody = ranks_of(topology)
    known = collective in BOUNDED and size > 1 and set(places) == set(everybody)
    at = everybody.index(places[root]) if known else 0
    limit = bound(collective, topology, at) if known else None
    return Simulation(collective, name, model, nbytes, *found, limit)


def flows_of(table: TransferTable, nbytes: float) -> list[list[Flow]]:
    """For each step of all ranks the messages that are sent in it."""
    number = table.step - table.first_step[table.rank_of[table.step]]
    share = table.share[table.place] / table.grid
    steps: list[list[Flow]] = [[] for _ in range(int(number.max(initial=-1)) + 1)]
    reduced: set[tuple[int, int, int, int]] = set()
    for i, kind in enumerate(table.kind):
        if kind == 2:
            rank, peer = int(table.rank_of[table.step[i]]), int(table.peer[i])
            reduced.add((int(number[i]), peer, rank, int(table.lane[i])))
    for i, kind in enumerate(table.kind):
        rank, peer = int(table.rank_of[table.step[i]]), int(table.peer[i])
        if kind == 0 and peer != rank:
            step, lane = int(number[i]), int(table.lane[i])
            reduces = (step, rank, peer, lane) in reduced
            flow = Flow(step, rank, peer, float(share[i]) * nbytes, reduces)
            steps[step].append(flow)
    return steps


def most_messages(flows: list[Flow]) -> int:
    """How many messages the busiest rank sends, or receives."""
    sent = Counter(flow.source for flow in flows)
    received = Counter(flow.target for flow in flows)
    return max(*sent.values(), *received.values())


def rounds(steps: list[list[Flow]], roads: Roads, reduction: float) -> Outcome:
    """All steps, one after the other."""
    busy: dict[Way, float] = defaultdict(float)
    seconds = []
    for flows in steps:
        times: dict[Way, float] = defaultdict(float)
        work: dict[int, float] = defaultdict(float)
        for flow in flows:
            for way in roads.ways(flow.source, flow.target):
                if way[0].bandwidth:
                    times[way] += flow.nbytes / (way[0].bandwidth * 1e9)
            if flow.reduces:
                work[flow.target] += reduction * flow.nbytes
        latency = max((roads.latency(f.source, f.target) for f in flows), default=0.0)
        latency += MESSAGE * (most_messages(flows) - 1) if flows else 0.0
        transfer = max(times.values(), default=0.0)
        seconds.append(latency + transfer + max(work.values(), default=0.0))
        for way, time in times.items():
            busy[way] += time
    return Outcome(sum(seconds), tuple(seconds), dict(busy))
