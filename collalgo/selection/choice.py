"""Choose an algorithm: the cheapest by the price of its own schedule."""

from collections.abc import Mapping, Sequence

import numpy as np

from collalgo.algorithms import Algorithm, candidates
from collalgo.collective import COLLECTIVES
from collalgo.cost.bounds import bound_of
from collalgo.cost.clusters import Cluster
from collalgo.machine import Machine, this_machine
from collalgo.selection import on_host
from collalgo.selection.on_topology import Prospect
from collalgo.selection.prices import Priced
from collalgo.selection.selection import Candidate, Selection, nobody
from collalgo.topology.model import Topology


def select(
    collective: str,
    nbytes: int,
    *,
    size: int | None = None,
    machine: Machine | None = None,
    topology: Topology | Cluster | Prospect | None = None,
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
        ``collalgo.simulate`` in several orders of the ranks. To choose for many sizes
        pass a ``Prospect`` of it, which remembers the prices.
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
    if topology is not None and not isinstance(topology, Prospect):
        topology = Prospect(topology)
    if topology is not None:
        able, unable = topology.priced(collective, reproducible)
        size, basis = topology.size, topology.basis
    elif size is None:
        raise ValueError("select needs the number of ranks, or a topology")
    else:
        machine = machine or this_machine()
        rows = candidates(collective)
        able, unable = on_host.priced(rows, size, machine, reproducible)
        basis = on_host.basis(machine)
    if not able:
        raise nobody(collective, size)
    where = topology.machine if topology is not None else None
    return Selection(
        collective,
        size,
        nbytes,
        basis,
        ranked(able, unable, nbytes),
        find_bound=lambda: bound_of(collective, where),
    )


def ranked(
    able: Sequence[Priced], unable: Mapping[Algorithm, str], nbytes: int
) -> tuple[Candidate, ...]:
    """Candidates for a size, the cheapest first, those that cannot run last."""
    size = np.array([float(nbytes)])
    found = [
        Candidate(one.row, float(one.price.seconds(size)[0]), None, one.order)
        for one in able
    ]
    found.sort(key=lambda candidate: candidate.seconds)
    lost = [Candidate(row, float("inf"), why) for row, why in unable.items()]
    return (*found, *lost)
