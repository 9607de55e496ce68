"""Choose an algorithm: the cheapest by the price of its own schedule."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collalgo.algorithms import Algorithm, candidates
from collalgo.collective import COLLECTIVES
from collalgo.cost import Price
from collalgo.errors import AlgorithmNotApplicable, CollalgoError
from collalgo.machine import Machine, this_machine
from collalgo.schedule import ScheduleFunction, trace
from collalgo.verify import prove_once

#: Why an algorithm cannot be asked for the same bits everywhere.
NOT_SERIAL = "does not combine in the order of the ranks"


class Candidate(NamedTuple):
    """An algorithm that was considered: its price, or why it cannot run."""

    row: Algorithm
    seconds: float
    obstacle: str | None

    @property
    def algorithm(self) -> str:
        return self.row.name


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
    """

    collective: str
    size: int
    nbytes: int
    machine: Machine
    candidates: tuple[Candidate, ...]

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
            return f"as cheap as {second.algorithm}"
        ratio = second.seconds / self.seconds if self.seconds else float("inf")
        return f"{ratio:.2f}x cheaper than {second.algorithm}"

    def explain(self) -> str:
        """The choice with all the prices, as text of several lines."""
        m = self.machine
        choice = (
            f"{self.collective} of {self.nbytes} bytes on {self.size} ranks: "
            f"{self.algorithm}, {self.reason}"
        )
        prices = (
            f"prices by {m.latency * 1e6:.2f} us a hand-over between cores, "
            f"{m.switch * 1e6:.2f} us on one core, {m.message * 1e6:.2f} us a "
            f"message, copies of {1e-9 / m.copy:.1f} GB/s, reductions of "
            f"{1e-9 / m.reduce:.1f} GB/s, {m.cores} cores"
        )
        lines = [choice, prices]
        lines += [
            f"  {row.name:24} {seconds * 1e6:12.2f} us"
            for row, seconds, obstacle in self.candidates
            if obstacle is None
        ]
        unable: dict[str, list[str]] = {}
        for row, _, obstacle in self.candidates:
            if obstacle is not None:
                unable.setdefault(obstacle, []).append(row.name)
        lines += [f"  {', '.join(names)}: {why}" for why, names in unable.items()]
        return "\n".join(lines)


def select(
    collective: str,
    nbytes: int,
    *,
    size: int,
    machine: Machine | None = None,
    reproducible: bool = False,
) -> Selection:
    """The cheapest algorithm for a collective.

    Parameters
    ----------
    collective
        ``"allreduce"``, ``"broadcast"``, ...
    nbytes
        Bytes of the larger of input and output of a rank.
    size
        The number of ranks.
    machine
        The price list; by default that of this machine, measured once.
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
    return Selection(collective, size, nbytes, machine, (*able, *unable))


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
