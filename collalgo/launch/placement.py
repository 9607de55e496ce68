"""The output of ``collalgo run --dry-run``: placement and commands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collalgo.base.cpu_list import shown
from collalgo.engine.transport.waiting import cores
from collalgo.launch.binding import Binding, cpus_of_ranks
from collalgo.launch.hosts import Host, RankPosition
from collalgo.launch.remote_shell import is_this_host

#: The NICs of ranks that are all on one host.
NO_NICS = "none, by shared memory"


class PlannedRank(NamedTuple):
    """The placement of a rank.

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
    """The placement of the ranks of a job.

    Attributes
    ----------
    ranks : sequence of PlannedRank
        The ranks, in order; none if the launcher that is delegated to decides.
    commands : sequence of str
        The command lines that would run.
    """

    ranks: Sequence[PlannedRank]
    commands: Sequence[str]


def planned_ranks(
    hosts: Mapping[Host, Sequence[RankPosition]], binding: Binding, nics: str
) -> Iterator[PlannedRank]:
    """The ranks of some hosts, without a connection to any of them.

    Parameters
    ----------
    hosts
        The ranks of each host.
    binding
        The binding of each rank.
    nics
        The interfaces, or the component that chooses them.
    """
    for host, positions in hosts.items():
        bound = _cores(binding, len(positions), here=is_this_host(host.name))
        for position, shown_cores in zip(positions, bound, strict=True):
            yield PlannedRank(position, host.name, shown_cores, nics)


def _cores(binding: Binding, ranks: int, *, here: bool) -> list[str]:
    """The binding of each rank of a host, in words."""
    if not here:
        words = "any" if binding is Binding.NONE else f"by {binding.value}, there"
        return [words] * ranks
    found = cpus_of_ranks(binding, ranks)
    return [f"any of {cores()}" if one is None else shown(one) for one in found]
