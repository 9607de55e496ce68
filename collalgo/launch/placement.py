"""What ``collalgo run --dry-run`` shows: where each rank would run, and by what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collalgo.launch.hosts import RankPosition


class PlannedRank(NamedTuple):
    """Where a rank would run.

    Attributes
    ----------
    position : RankPosition
        Its position in the job.
    host : str
        The name of its host.
    cores : str
        The hardware threads that it would be bound to, or how many it may use.
    nics : str
        The interfaces of its host to the other hosts.
    """

    position: RankPosition
    host: str
    cores: str
    nics: str


@dataclass(frozen=True)
class Placement:
    """Where the ranks of a job would run.

    Attributes
    ----------
    ranks : sequence of PlannedRank
        The ranks, in order; none if the launcher that is delegated to decides.
    commands : sequence of str
        The command lines that would run.
    """

    ranks: Sequence[PlannedRank]
    commands: Sequence[str]
