"""Choose an algorithm: the cheapest by the price of its own schedule."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from collalgo.algorithms import Algorithm, find
from collalgo.collective import COLLECTIVES
from collalgo.cost.clusters import Cluster
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integers import integer
from collalgo.machine import Machine, this_machine
from collalgo.selection.deciders import Decision, of_policy, of_user
from collalgo.selection.on_host import Host
from collalgo.selection.on_topology import Prospect
from collalgo.selection.prices import Priced
from collalgo.selection.selection import NOT_SERIAL, Candidate, Selection, nobody
from collalgo.topology.model import Topology


def select(
    collective: str,
    nbytes: int,
    *,
    size: int | None = None,
    machine: Machine | None = None,
    topology: Topology | Cluster | Prospect | Host | None = None,
    reproducible: bool = False,
    algorithm: str | None = None,
    policy: str | None = None,
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
        pass a ``Prospect`` of it, which remembers the prices, or a ``Host``.
    reproducible
        Only algorithms that combine in the order of the ranks.
    algorithm
        The name of one to be taken whatever its price.
    policy
        Whose default decision to take: ``"openmpi"``, ``"mpich"``, ``"nccl"`` (on a
        topology), ``"gloo"``, or a file of :mod:`collalgo.selection.rules`.

    Notes
    -----
    Without an algorithm or a policy the environment decides (``COLLALGO_ALLREDUCE`` and
    the like, or a file of rules by ``COLLALGO_RULES``), else the price.

    Raises
    ------
    AlgorithmNotApplicable
        If none can run, or not the one that is asked for.
    RulesError
        If a file of rules is none.

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
    market = topology or _host(size, machine)
    if not isinstance(market, Prospect | Host):
        market = Prospect(market)
    able, unable = market.sifted(collective, reproducible)
    if not able:
        raise nobody(collective, market.size)
    decision = _decision(collective, nbytes, market, algorithm, policy)
    if decision is None:
        chosen = _cheapest(market, able, nbytes)
    else:
        chosen = _asked_for(collective, decision, able, market, nbytes, reproducible)
    return Selection(
        collective,
        market.size,
        nbytes,
        market.basis,
        chosen,
        decision.decider if decision else "price",
        lambda: ranked(market.priced(able), unable, nbytes),
        partial(market.bound, collective),
    )


def _host(size: int | None, machine: Machine | None) -> Host:
    """The host at hand, or one of other figures."""
    if size is None:
        raise ValueError("select needs the number of ranks, or a topology")
    return Host(integer(size, "size", "select", 1), machine or this_machine())


def _decision(
    collective: str,
    nbytes: int,
    market: Host | Prospect,
    algorithm: str | None,
    policy: str | None,
) -> Decision | None:
    """Who decides, if it is not the price."""
    if algorithm is not None:
        return Decision(algorithm, "the argument")
    if policy is None:
        return of_user(collective, market.size, nbytes)
    return of_policy(policy, collective, market.size, nbytes, market.world)


def _cheapest(
    market: Host | Prospect, rows: Sequence[Algorithm], nbytes: int
) -> Candidate:
    """The cheapest of the candidates that some algorithms are."""
    found = market.contenders(rows, np.array([float(nbytes)]))
    return ranked(found, {}, nbytes)[0]


def _asked_for(
    collective: str,
    decision: Decision,
    able: Sequence[Algorithm],
    market: Host | Prospect,
    nbytes: int,
    reproducible: bool,
) -> Candidate:
    """The candidate of a decision: the cheapest variant, or exactly what is named.

    Raises
    ------
    AlgorithmNotApplicable
        If it cannot run.
    """
    names = decision.algorithm
    names = (names,) if isinstance(names, str) else names
    if meant := [row for row in able if row.plain in names]:
        return _cheapest(market, meant, nbytes)
    row = find(collective, names[0], market.size)
    if reproducible and not row.serial:
        raise AlgorithmNotApplicable(
            f"{collective}: {row.name}, asked for by {decision.decider}, {NOT_SERIAL}",
            collective=collective,
        )
    return ranked(market.exactly(row), {}, nbytes)[0]


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
