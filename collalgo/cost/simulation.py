"""What a schedule costs on a topology, and which link is in its way.

Two models on the same messages, each of which takes the best roads between its devices;
links carry their bandwidth in each direction at once.

- ``rounds``: all ranks begin a step together; see :mod:`collalgo.cost.rounds`.
- ``fluid``: every rank goes on as its own messages come, and messages under way at the
  same time share links max-min fairly; see :mod:`collalgo.cost.fluid`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from collalgo.algorithms import find
from collalgo.base.units import human, human_time
from collalgo.cost.bounds import Bound, bound_of
from collalgo.cost.fluid import Play
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Map, Way, ranks_of
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.transfers import Reals
from collalgo.topology.model import Topology

MODELS = ("rounds", "fluid")

__all__ = ["MODELS", "Simulation", "ranks_of", "simulate"]


class Simulation(NamedTuple):
    """What a schedule takes on a topology.

    Attributes
    ----------
    collective, algorithm, model : str
        Which.
    size : int
        The number of ranks.
    nbytes : float
        Of the buffer.
    seconds : float
        Until the last rank is done.
    steps : tuple of float
        Seconds of each step, in the model of rounds.
    in_the_way : tuple
        The direction of a link that is busy longest in each step, or None, in the
        model of rounds.
    busy : dict
        For each direction of a link, the seconds that its bytes take; of a cluster,
        of its first host.
    bound : Bound or None
        How fast the collective can be there, if that is known.
    """

    collective: str
    algorithm: str
    model: str
    size: int
    nbytes: float
    seconds: float
    steps: tuple[float, ...]
    in_the_way: tuple[Way | None, ...]
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
            f"{self.collective} by {self.algorithm} of {human(self.nbytes)} on "
            f"{self.size} ranks: {human_time(self.seconds)} (model: {self.model})"
        )
        way = self.bottleneck
        if way is not None:
            busy = human_time(self.busy[way])
            text += f"\nbottleneck: {words_of(way)}, busy for {busy}"
        if self.bound is not None and self.ratio is not None:
            least = human_time(self.bound.seconds(self.nbytes))
            text += f"\n{self.ratio:.2f} times the bound of {least}: "
            text += self.bound.why(self.nbytes)
        return text


def words_of(way: Way) -> str:
    """A direction of a link in words."""
    link, forth = way
    a, b = link.ends if forth else link.ends[::-1]
    return f"{link.kind.value} from {a} to {b} ({link.bandwidth:g} GB/s)"


def simulate(
    algorithm: str | ScheduleFunction,
    topology: Topology | UniformCluster,
    nbytes: float,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
    figures: LinkModel = DEFAULTS,
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
    figures
        What messages cost where links do not tell.
    model
        ``rounds`` or ``fluid``.

    Raises
    ------
    TopologyError
        If ranks cannot reach each other, or the order is none of the devices.
    """
    if model not in MODELS:
        raise TopologyError(f"no model {model!r}; choose one of {', '.join(MODELS)}")
    site = Placement(topology, order or (), figures)
    job = Job.of(algorithm, collective, site.size, nbytes)
    if model == "rounds":
        folded = site.fold(job.schedule, job.dims, root)
        found = site.rounds(folded)
        steps = tuple((found.latency + job.whole * found.per_byte).tolist())
        ways = tuple(
            None if way < 0 else found.roads.name(way) for way in found.way.tolist()
        )
        busy = _named(found.roads, found.busy * job.whole)
        outcome = (sum(steps), steps, ways, busy)
    else:
        messages = site.messages(job.schedule, root)
        play = Play(messages, job.whole, site.roads)
        outcome = (play.run(), (), (), _named(site.roads, play.busy))
    limit = bound_at(collective, site, root)
    return Simulation(collective, job.name, model, site.size, nbytes, *outcome, limit)


class Job(NamedTuple):
    """A schedule that is to move so many bytes.

    Attributes
    ----------
    name : str
        Of the algorithm.
    schedule : callable
        The function of a group.
    dims : tuple of int
        The grid that it is made for, if any.
    whole : float
        Bytes of all that the schedule speaks of.
    """

    name: str
    schedule: ScheduleFunction
    dims: tuple[int, ...]
    whole: float

    @classmethod
    def of(
        cls,
        algorithm: str | ScheduleFunction,
        collective: str,
        size: int,
        nbytes: float,
    ) -> "Job":
        """What a user means by a name or a function."""
        whole = nbytes * COLLECTIVES[collective].buffers(size)
        if callable(algorithm):
            name = getattr(algorithm, "__name__", "schedule")
            return cls(name, algorithm, (), whole)
        row = find(collective, algorithm, size)
        dims = tuple(dict(row.parameters).get("dims", ()))
        return cls(row.name, row.schedule, dims, whole)


def _named(roads: Map, busy: Reals) -> dict[Way, float]:
    """The ways that are busy at all, by their links; of those alike the busiest."""
    found: dict[Way, float] = {}
    for way in np.flatnonzero(busy).tolist():
        name = roads.name(way)
        found[name] = max(found.get(name, 0.0), float(busy[way]))
    return found


def bound_at(collective: str, site: Placement, root: int) -> Bound | None:
    """The bound of a collective for a site whose ranks are all of a topology."""
    if isinstance(site.machine, UniformCluster):
        return None
    everybody = ranks_of(site.machine)
    if set(site.places) != set(everybody):
        return None
    at = everybody.index(site.places[root])
    return bound_of(collective, site.machine, at, site.figures)
