"""What the bytes of a schedule take on a topology, in exact rationals.

The model is that of rounds, of which the bytes on the links are counted and nothing
else: the bounds by cuts speak of the same. So a schedule whose ratio is 1 is proved to
be as fast as any for long buffers.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from collalgo.cost.bounds import Bound
from collalgo.cost.cuts import GRAIN
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routes
from collalgo.cost.simulation import Job, bound_at
from collalgo.schedule import Chunks, Kind, ScheduleFunction, trace
from collalgo.topology.model import Topology

#: Messages are parted evenly where ways are equal, never into more parts than this.
PARTS = 1_000_000


class Exact(NamedTuple):
    """What the bytes of a schedule take, and what they take at least.

    Attributes
    ----------
    per_byte : Fraction
        Seconds for each 10^9 bytes of the buffer.
    steps : tuple of Fraction
        The same of each step.
    bound : Bound or None
        How fast the collective can be there, if that is known.
    """

    per_byte: Fraction
    steps: tuple[Fraction, ...]
    bound: Bound | None

    @property
    def ratio(self) -> Fraction | None:
        """How many times as long as the bound; None without one."""
        if self.bound is None or not self.bound.per_byte:
            return None
        return self.per_byte / self.bound.per_byte

    def __str__(self) -> str:
        text = f"exactly {self.per_byte} s for each GB, by the bytes on the links"
        if self.bound is not None and self.ratio is not None:
            text += f"; at least {self.bound.per_byte} s: {self.ratio} times the bound"
        return text


def exact(
    algorithm: str | ScheduleFunction,
    topology: Topology,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
) -> Exact:
    """What the bytes of a schedule take on a topology, without rounding.

    The parameters are those of :func:`~collalgo.cost.simulation.simulate`.

    Raises
    ------
    TopologyError
        If ranks cannot reach each other, or the order is none of the devices.
    """
    site = Placement(topology, order or ())
    job = Job.of(algorithm, collective, site.size, 1.0)
    roads = Routes(topology, site.places, site.figures)
    busy = _busy(job.schedule, roads, root)
    buffers = Fraction(job.whole)  # that the schedule speaks of
    steps = tuple(buffers * max(ways.values()) for _, ways in sorted(busy.items()))
    limit = bound_at(collective, site, root)
    return Exact(sum(steps, Fraction(0)), steps, limit)


def _busy(
    schedule: ScheduleFunction, roads: Routes, root: int
) -> dict[int, dict[int, Fraction]]:
    """How long each way is busy in each step, for 10^9 bytes of all buffers."""
    size = len(roads.places)
    busy: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for rank in range(size):
        for number, step in enumerate(trace(schedule, rank, size, root)):
            for transfer in step:
                if transfer.kind is Kind.SEND and transfer.peer != rank:
                    share = _share(transfer.chunks)
                    route = roads.route(roads.places[rank], roads.places[transfer.peer])
                    for way, part in zip(route.ways, route.parts, strict=True):
                        busy[number][way] += share * _part(part) * _seconds(roads, way)
    return busy


def _share(chunks: Chunks) -> Fraction:
    """How much of the buffer some chunks are."""
    return sum((Fraction(c.stop - c.start, c.parts) for c in chunks), Fraction(0))


def _part(part: float) -> Fraction:
    """The part of a message that goes one way, which floats tell well enough."""
    return Fraction(part).limit_denominator(PARTS)


def _seconds(roads: Routes, way: int) -> Fraction:
    """What 10^9 bytes take on a way; nothing if that is not known, as for bounds."""
    link, _ = roads.name(way)
    grains = round((link.bandwidth or 0.0) * GRAIN)
    return Fraction(GRAIN, grains) if grains else Fraction(0)
