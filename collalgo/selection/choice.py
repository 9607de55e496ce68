"""Choose an algorithm: the cheapest by the price of its own schedule."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collalgo.algorithms import Algorithm, candidates
from collalgo.collective import COLLECTIVES
from collalgo.cost.bounds import BOUNDED, Bound, bound
from collalgo.cost.host import Price
from collalgo.cost.roads import Roads, ranks_of
from collalgo.errors import AlgorithmNotApplicable, CollalgoError
from collalgo.machine import Machine, this_machine
from collalgo.schedule import ScheduleFunction, trace
from collalgo.selection.variants import forecasts, orders_of
from collalgo.topology.model import Topology
from collalgo.verify import prove_once

#: Why an algorithm cannot be asked for the same bits everywhere.
NOT_SERIAL = "does not combine in the order of the ranks"


class Candidate(NamedTuple):
    """An algorithm that was considered: its price, or why it cannot run.

    ``order`` is the name of the order in which ranks stand on devices, as "ring", or ""
    for the order of the topology.
    """

    row: Algorithm
    seconds: float
    obstacle: str | None
    order: str = ""

    @property
    def algorithm(self) -> str:
        return self.row.name

    @property
    def words(self) -> str:
        """The algorithm and its order."""
        return self.row.name + (f", ranks along the {self.order}" if self.order else "")


@dataclass(frozen=True)
class Selection:
    """Which algorithm to use, and what speaks for it.

    Attributes
    ----------
    algorithm : str
        The name of the cheapest.
    seconds : float
        Its predicted time.
    candidates : tuple of Candidate
        All that were considered, the cheapest first, those that cannot run last.
    basis : str
        What the prices were made of.
    bound : Bound or None
        How fast the collective can be, on a topology where that is known.
    """

    collective: str
    size: int
    nbytes: int
    basis: str
    candidates: tuple[Candidate, ...]
    bound: Bound | None = None

    @property
    def row(self) -> Algorithm:
        return self.candidates[0].row

    @property
    def algorithm(self) -> str:
        return self.row.name

    @property
    def seconds(self) -> float:
        return self.candidates[0].seconds

    @property
    def reason(self) -> str:
        """In a few words, why the choice is what it is."""
        able = [c for c in self.candidates if c.obstacle is None]
        if len(able) == 1:
            return "the only one that can run"
        second = able[1]
        if second.seconds == self.seconds:
            return f"as cheap as {second.words}"
        ratio = second.seconds / self.seconds if self.seconds else float("inf")
        return f"{ratio:.2f}x cheaper than {second.words}"

    @property
    def bound_seconds(self) -> float | None:
        """The least time by bandwidth, if that is known."""
        return None if self.bound is None else self.bound.seconds(self.nbytes)

    def explain(self) -> str:
        """The choice with all the prices, as text of several lines."""
        choice = (
            f"{self.collective} of {self.nbytes} bytes on {self.size} ranks: "
            f"{self.candidates[0].words}, {self.reason}"
        )
        lines = [choice, f"prices by {self.basis}"]
        if self.bound is not None and self.bound_seconds:
            ratio = self.seconds / self.bound_seconds
            lines.append(f"{ratio:.2f} times the bound: {self.bound.reason}")
        able = [c for c in self.candidates if c.obstacle is None]
        width = max(len(c.words) for c in able)
        lines += [f"  {c.words:{width}} {c.seconds * 1e6:12.2f} us" for c in able]
        unable: dict[str, list[str]] = {}
        for candidate in self.candidates:
            if candidate.obstacle is not None:
                unable.setdefault(candidate.obstacle, []).append(candidate.algorithm)
        lines += [f"  {', '.join(names)}: {why}" for why, names in unable.items()]
        return "\n".join(lines)


def select(
    collective: str,
    nbytes: int,
    *,
    size: int | None = None,
    machine: Machine | None = None,
    topology: Topology | None = None,
    reproducible: bool = False,
) -> Selection:
    """The cheapest algorithm for a collective, on this machine or on a topology.

    Parameters
    ----------
    collective
        ``"allreduce"``, ``"broadcast"``, ...
    nbytes
        Bytes of the larger of input and output of a rank.
    size
        The number of ranks; on a topology all of its GPUs, or hosts.
    machine
        The price list; by default that of this machine, measured once.
    topology
        Where the ranks are to be, instead of this machine: priced by
        ``collalgo.simulate`` in several orders of the ranks.
    reproducible
        Only algorithms that combine in the order of the ranks.

    Examples
    --------
    >>> machine = Machine(1e-6, 3e-6, 1e-7, 1e-10, 1e-10, cores=64)
    >>> select("allreduce", 8, size=16, machine=machine).algorithm
    'recursive_multiplying'
    >>> select("allreduce", 1 << 24, size=16, machine=machine).algorithm
    'two_shot'
    """
    if collective not in COLLECTIVES:
        raise ValueError(
            f"unknown collective {collective!r}; choose one of {', '.join(COLLECTIVES)}"
        )
    if topology is not None:
        return on_topology(collective, nbytes, topology, reproducible)
    if size is None:
        raise ValueError("select needs the number of ranks, or a topology")
    machine = machine or this_machine()
    able, unable = [], []
    for row in candidates(collective):
        if obstacle := _obstacle(row, size, reproducible):
            unable.append(Candidate(row, float("inf"), obstacle))
        else:
            seconds = predicted(row, size, nbytes, machine)
            able.append(Candidate(row, seconds, None))
    if not able:
        raise AlgorithmNotApplicable(
            f"{collective}: no algorithm can run with {size} ranks",
            collective=collective,
        )
    able.sort(key=lambda candidate: candidate.seconds)
    return Selection(collective, size, nbytes, _basis(machine), (*able, *unable))


def _basis(machine: Machine) -> str:
    return (
        f"{machine.latency * 1e6:.2f} us a hand-over between cores, "
        f"{machine.switch * 1e6:.2f} us on one core, {machine.message * 1e6:.2f} us a "
        f"message, copies of {1e-9 / machine.copy:.1f} GB/s, reductions of "
        f"{1e-9 / machine.reduce:.1f} GB/s, {machine.cores} cores"
    )


def on_topology(
    collective: str, nbytes: int, topology: Topology, reproducible: bool = False
) -> Selection:
    """The cheapest algorithm and order of ranks on a topology, by rounds."""
    size = len(ranks_of(topology))
    roads, orders = Roads(topology, ranks_of(topology)), orders_of(topology)
    able, unable = [], []
    for row in candidates(collective):
        obstacle = row.obstacle(size)
        if reproducible and not row.serial:
            obstacle = NOT_SERIAL
        if obstacle:
            unable.append(Candidate(row, float("inf"), obstacle))
        else:
            able += [
                Candidate(variant, seconds, None, order)
                for variant, order, seconds in forecasts(row, nbytes, roads, orders)
            ]
    if not able:
        raise AlgorithmNotApplicable(
            f"{collective}: no algorithm can run with {size} ranks",
            collective=collective,
        )
    able.sort(key=lambda candidate: candidate.seconds)
    limit = bound(collective, topology) if collective in BOUNDED and size > 1 else None
    basis = f"the links of {topology.name}, in rounds"
    return Selection(collective, size, nbytes, basis, (*able, *unable), limit)


def _obstacle(row: Algorithm, size: int, reproducible: bool) -> str | None:
    """Why an algorithm is not to be chosen, or None."""
    if reproducible and not row.serial:
        return NOT_SERIAL
    if row.levels:
        return "for several hosts, and the ranks are on one"
    if row.unproved:
        try:
            prove_once(row.schedule, size, row.collective)
        except CollalgoError as error:
            return f"is wrong: {error}"
    return row.obstacle(size)


def predicted(row: Algorithm, size: int, nbytes: int, machine: Machine) -> float:
    """The price of an algorithm in seconds."""
    buffers = COLLECTIVES[row.collective].buffers(size)
    return price(row.schedule, size, machine).seconds(nbytes * buffers)


@lru_cache(maxsize=4096)
def price(schedule: ScheduleFunction, size: int, machine: Machine) -> Price:
    """The price of a schedule, from its steps on all ranks."""
    return Price([trace(schedule, rank, size) for rank in range(size)], machine)
