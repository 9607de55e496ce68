"""The bandwidth term of a schedule on a topology, in exact rationals.

The model is that of rounds without latencies, gaps and reductions: only the bytes on
the links count, as in the bounds by cuts. A ratio of 1 thus proves that a schedule is
optimal for long buffers.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from collalgo.base.arguments import wrong_type
from collalgo.cost.bounds import Bound
from collalgo.cost.cuts import GRAIN
from collalgo.cost.job import Job
from collalgo.cost.machine import A_TOPOLOGY, check_root
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routes
from collalgo.schedule import Chunks, Kind, ScheduleFunction, trace
from collalgo.topology.assumed import marked
from collalgo.topology.model import Topology

#: Messages are split evenly over equal paths, into at most this many parts.
PARTS = 1_000_000


class Exact(NamedTuple):
    """The bandwidth term of a schedule, and its lower bound.

    Attributes
    ----------
    per_byte : Fraction
        Seconds per 10^9 bytes of the buffer.
    steps : tuple of Fraction
        The same for each step.
    bound : Bound or None
        The lower bound of the collective on the topology, if known.
    assumed : bool
        Whether links carry the bytes whose speeds are assumed.
    """

    per_byte: Fraction
    steps: tuple[Fraction, ...]
    bound: Bound | None
    assumed: bool = False

    @property
    def ratio(self) -> Fraction | None:
        """The time as a multiple of the bound; None without a bound."""
        if self.bound is None or not self.bound.per_byte:
            return None
        return self.per_byte / self.bound.per_byte

    def __str__(self) -> str:
        text = f"exactly {_figure(self.per_byte)} s for each GB, by the bytes on the "
        text += "links without latencies"
        text += marked(self.assumed)
        if self.bound is not None and self.ratio is not None:
            least = f"{_figure(self.bound.per_byte)} s{marked(self.bound.assumed)}"
            text += f"; the bytes need at least {least}: "
            text += f"{_figure(self.ratio)} times the bound"
            text += ", which is impossible" if self.ratio < 1 else ""
        return text


def _figure(value: Fraction) -> str:
    """A number, with its decimals if it is a fraction."""
    if value.denominator == 1:
        return str(value)
    return f"{value} ({float(value):.4g})"


def exact(
    algorithm: str | ScheduleFunction,
    topology: Topology,
    *,
    collective: str,
    root: int = 0,
    order: Sequence[str] | None = None,
) -> Exact:
    """Compute the bandwidth term of a schedule on a topology, without rounding.

    The parameters are those of :func:`~collalgo.cost.simulation.simulate`.

    Raises
    ------
    TopologyError
        If a rank cannot reach another, or the order names unknown devices.
    AlgorithmNotApplicable, ScheduleError
        If the schedule of a user cannot run, or is wrong.
    TypeError
        If ``topology`` is not a topology.
    """
    if not isinstance(topology, Topology):
        raise wrong_type("exact", "topology", topology, A_TOPOLOGY)
    placement = Placement(topology, order or ())
    check_root(root, placement.size)
    job = Job.of(algorithm, collective, placement, 1.0, root)
    machine = placement.machine
    assert isinstance(machine, Topology)  # as given
    routes = Routes(machine, placement.devices, placement.link_model)
    busy = _busy(job.schedule, routes, root)
    buffers = Fraction(job.whole)  # that the chunks divide
    steps = tuple(buffers * max(loads.values()) for _, loads in sorted(busy.items()))
    limit = job.bound(collective, placement, root)
    used = {link for loads in busy.values() for link in loads}
    assumed = not used.isdisjoint(routes.assumed.tolist())
    return Exact(sum(steps, Fraction(0)), steps, limit, assumed)


def _busy(
    schedule: ScheduleFunction, routes: Routes, root: int
) -> dict[int, dict[int, Fraction]]:
    """The busy time of each directed link in each step, per 10^9 bytes of buffers."""
    size = len(routes.devices)
    busy: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for rank in range(size):
        for number, step in enumerate(trace(schedule, rank, size, root)):
            for transfer in step:
                if transfer.kind is Kind.SEND and transfer.peer != rank:
                    share = _share(transfer.chunks)
                    ends = routes.devices[rank], routes.devices[transfer.peer]
                    route = routes.route(*ends)
                    for link, part in zip(*route[:2], strict=True):
                        busy[number][link] += (
                            share * _part(part) * _seconds(routes, link)
                        )
    return busy


def _share(chunks: Chunks) -> Fraction:
    """The share of the buffer that some chunks make up."""
    return sum((Fraction(c.stop - c.start, c.parts) for c in chunks), Fraction(0))


def _part(part: float) -> Fraction:
    """The part of a message on a link, recovered from a float."""
    return Fraction(part).limit_denominator(PARTS)


def _seconds(routes: Routes, directed_link: int) -> Fraction:
    """The seconds of 10^9 bytes on a link; 0 if it is not limited."""
    link, _ = routes.directed_link(directed_link)
    grains = round((link.bandwidth or 0.0) * GRAIN)
    return Fraction(GRAIN, grains) if grains else Fraction(0)
