"""Choose an algorithm: the cheapest by the price of its own schedule."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from collalgo.algorithms import Algorithm, find
from collalgo.base.integers import integer
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_host import HostPricer
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import Override, from_environment, of_policy
from collalgo.selection.prices import Priced
from collalgo.selection.selection import NOT_SERIAL, Candidate, Selection, nobody
from collalgo.topology.model import Topology


def select(
    collective: str,
    nbytes: int,
    *,
    size: int | None = None,
    machine: HostProfile | None = None,
    topology: Topology | UniformCluster | TopologyPricer | HostPricer | None = None,
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
        pass a ``TopologyPricer`` of it, which remembers the prices, or a ``Host``.
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
    >>> machine = HostProfile(1e-6, 3e-6, 1e-7, 1e-10, 1e-10, cores=64)
    >>> select("allreduce", 8, size=16, machine=machine).algorithm
    'recursive_multiplying'
    >>> select("allreduce", 1 << 24, size=16, machine=machine).algorithm
    'two_shot'
    """
    if collective not in COLLECTIVES:
        raise ValueError(
            f"unknown collective {collective!r}; choose one of {', '.join(COLLECTIVES)}"
        )
    pricer = topology or _host(size, machine)
    if not isinstance(pricer, TopologyPricer | HostPricer):
        pricer = TopologyPricer(pricer)
    able, unable = pricer.applicable(collective, reproducible)
    if not able:
        raise nobody(collective, pricer.size)
    decision = _decision(collective, nbytes, pricer, algorithm, policy)
    if decision is None:
        chosen = _cheapest(pricer, able, nbytes)
    else:
        chosen = _asked_for(collective, decision, able, pricer, nbytes, reproducible)
    return Selection(
        collective,
        pricer.size,
        nbytes,
        pricer.basis,
        chosen,
        decision.decider if decision else "price",
        lambda: ranked(pricer.priced(able), unable, nbytes),
        partial(pricer.bound, collective),
    )


def _host(size: int | None, machine: HostProfile | None) -> HostPricer:
    """The host at hand, or one of other figures."""
    if size is None:
        raise ValueError("select needs the number of ranks, or a topology")
    return HostPricer(integer(size, "size", "select", 1), machine or host_profile())


def _decision(
    collective: str,
    nbytes: int,
    pricer: HostPricer | TopologyPricer,
    algorithm: str | None,
    policy: str | None,
) -> Override | None:
    """Who decides, if it is not the price."""
    if algorithm is not None:
        return Override(algorithm, "the argument")
    if policy is None:
        return from_environment(collective, pricer.size, nbytes)
    return of_policy(policy, collective, pricer.size, nbytes, pricer.world)


def _cheapest(
    pricer: HostPricer | TopologyPricer, rows: Sequence[Algorithm], nbytes: int
) -> Candidate:
    """The cheapest of the candidates that some algorithms are."""
    found = pricer.prune(rows, np.array([float(nbytes)]))
    return ranked(found, {}, nbytes)[0]


def _asked_for(
    collective: str,
    decision: Override,
    able: Sequence[Algorithm],
    pricer: HostPricer | TopologyPricer,
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
    if meant := [row for row in able if row.base_name in names]:
        return _cheapest(pricer, meant, nbytes)
    row = find(collective, names[0], pricer.size)
    if reproducible and not row.serial:
        raise AlgorithmNotApplicable(
            f"{collective}: {row.name}, asked for by {decision.decider}, {NOT_SERIAL}",
            collective=collective,
        )
    return ranked(pricer.price_one(row), {}, nbytes)[0]


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
