"""``select``: a decision with the prices of all candidates."""

from collections.abc import Mapping, Sequence
from functools import partial

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base.arguments import wrong_type
from collalgo.base.integers import integer
from collalgo.base.units import number_of_bytes
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.cost.late_ranks import checked_late
from collalgo.cost.machine import A_TOPOLOGY
from collalgo.cost.matrix_bounds import ALLTOALLV
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.engine.call import AlgorithmChoice, check_algorithm
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.decide import Question, decide
from collalgo.selection.late_pricer import late_pricer
from collalgo.selection.on_host import MOST_RANKS, HostPricer
from collalgo.selection.on_matrix import MatrixPricer, matrix_pricer, question_of
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.pricer import Pricer
from collalgo.selection.prices import ByPrice
from collalgo.selection.selection import Selection
from collalgo.topology.model import Topology


def select(
    collective: str,
    nbytes: float | str | None = None,
    *,
    counts: ByteMatrix | Sequence[Sequence[int]] | None = None,
    size: int | None = None,
    machine: HostProfile | None = None,
    topology: Topology | UniformCluster | Pricer | None = None,
    reproducible: bool = False,
    algorithm: AlgorithmChoice = None,
    policy: str | None = None,
    late: Mapping[int, float] | None = None,
) -> Selection:
    """Choose the algorithm of a collective, on this machine or on a topology.

    The choice is the decision that calls of such ranks make.

    Parameters
    ----------
    collective
        ``"allreduce"``, ``"broadcast"``, ...
    nbytes
        Bytes of the larger of input and output of a rank, as a number or ``"1M"``.
    counts
        For ``"alltoallv"``, instead of ``nbytes``: the bytes from each rank to each, as
        a table. Its algorithms are those of an alltoall, and a schedule synthesised for
        these bytes.
    size
        The number of ranks; on a topology all of its GPUs, or hosts.
    machine
        The host profile; by default that of this machine, measured once.
    topology
        The topology of the ranks, instead of this machine: priced by
        ``collalgo.simulate`` in several orders of the ranks. To choose for many sizes
        pass a ``TopologyPricer`` of it, which keeps the prices, or a ``HostPricer``.
    reproducible
        Only algorithms that combine in the order of the ranks.
    algorithm
        The algorithm to use regardless of its price: a name, several in order of
        preference, or a schedule function.
    policy
        The default decision to take: ``"openmpi"``, ``"mpich"``, ``"nccl"`` (on a
        topology), ``"gloo"``, or a file of :mod:`collalgo.selection.rules`.
    late
        The seconds by which ranks come late, on a topology. The time is then that from
        the arrival of the last rank, and ``late_rank`` and ``late_broadcast`` are
        candidates.

    Notes
    -----
    Without an algorithm or a policy the environment decides (``COLLALGO_ALLREDUCE`` and
    the like, or a rules file by ``COLLALGO_RULES``), else the price.

    Raises
    ------
    AlgorithmNotApplicable
        If none can run, or the requested one cannot.
    RulesError
        If a file is not a rules file.

    Examples
    --------
    >>> machine = HostProfile(1e-6, 3e-6, 1e-7, 1e-10, 1e-10, cores=64)
    >>> select("allreduce", 8, size=16, machine=machine).algorithm
    'recursive_multiplying'
    >>> select("allreduce", 1 << 24, size=16, machine=machine).algorithm
    'two_shot'
    """
    _check(collective, algorithm)
    _check_options(collective, reproducible, algorithm, policy)
    pricer = _on_host(size, machine) if topology is None else _pricer(topology)
    if late is not None:
        pricer = _for_late(pricer, collective, late)
    if collective == ALLTOALLV:
        pricer = _for_counts(pricer, nbytes, counts)
        question = question_of(pricer.matrix)
    else:
        question = Question(collective, _checked_bytes(collective, nbytes, counts))
    question = question._replace(
        algorithm=algorithm,
        reproducible=reproducible,
        policy=policy,
        only=question.nbytes,
    )
    return _selection(collective, question, pricer)


def _check(collective: str, algorithm: AlgorithmChoice) -> None:
    """Refuse an unknown collective, and an invalid choice of an algorithm."""
    if collective not in (*COLLECTIVES, ALLTOALLV):
        raise ValueError(
            f"unknown collective {collective!r}; choose one of "
            f"{', '.join((*COLLECTIVES, ALLTOALLV))}"
        )
    check_algorithm(algorithm, "select")


def _check_options(
    collective: str, reproducible: bool, algorithm: AlgorithmChoice, policy: str | None
) -> None:
    """Refuse options that have no effect on the choice."""
    found = COLLECTIVES.get(collective)
    if reproducible and not (found and found.reduces):
        raise ValueError(
            f"select: {collective} reduces nothing, so that reproducible does not "
            "apply; leave it out"
        )
    if algorithm is not None and policy is not None:
        raise ValueError(
            f"select: the algorithm is given, so that the policy {policy!r} decides "
            "nothing; pass one of them"
        )


def _checked_bytes(collective: str, nbytes: float | str | None, counts: object) -> int:
    """The bytes of a collective whose blocks are equal."""
    if counts is not None:
        raise ValueError(
            f"select: {collective} has counts, which are for an alltoallv; leave them "
            "out, and pass nbytes"
        )
    if nbytes is None:
        raise TypeError(
            f"select: nbytes is missing for {collective}; pass the bytes of the "
            "larger of input and output of a rank"
        )
    return number_of_bytes(nbytes, "select")


def _for_late(pricer: Pricer, collective: str, late: Mapping[int, float]) -> Pricer:
    """The prices for late ranks; without any those of the pricer."""
    found = checked_late(late, pricer.size, "rounds", "select")
    if not found:
        return pricer
    if collective == ALLTOALLV:
        why = "alltoallv has no prices for late ranks; leave late out"
    elif not isinstance(pricer, TopologyPricer):
        why = "late needs a topology; pass topology= or leave late out"
    else:
        return late_pricer(pricer, found)
    raise AlgorithmNotApplicable(f"select: {why}", collective=collective)


def _for_counts(
    pricer: Pricer,
    nbytes: float | str | None,
    counts: ByteMatrix | Sequence[Sequence[int]] | None,
) -> MatrixPricer:
    """The prices of an alltoallv."""
    if counts is None:
        raise ValueError(
            "select: alltoallv needs counts; pass the bytes from each rank to each"
        )
    if nbytes is not None:
        raise ValueError(
            f"select: alltoallv has counts and nbytes={nbytes!r}; leave nbytes out, as "
            "counts have all bytes"
        )
    if not isinstance(pricer, TopologyPricer):
        raise AlgorithmNotApplicable(
            "select: alltoallv is priced on a topology; pass topology=, or select an "
            "alltoall of the mean size",
            collective=ALLTOALLV,
        )
    matrix = counts if isinstance(counts, ByteMatrix) else ByteMatrix(counts)
    return matrix_pricer(pricer, matrix)


def _selection(collective: str, question: Question, pricer: Pricer) -> Selection:
    """The decision of a question, with the prices of all candidates."""
    nbytes = question.nbytes

    def candidates() -> tuple[ByPrice, Mapping[Algorithm, str]]:
        able, unable = pricer.applicable(question.collective, question.reproducible)
        return pricer.by_price(able, nbytes), unable

    correction = pricer.correction(question.collective, nbytes)
    decision = decide(question, pricer)
    found = collective, pricer.size, nbytes, pricer.basis, decision, candidates
    bound, run = partial(pricer.bound, collective), pricer.runnable
    return Selection(*found, bound, lambda: pricer.assumptions, correction, run)


def _pricer(topology: Topology | UniformCluster | Pricer) -> Pricer:
    """The prices on a topology, or those that the caller has."""
    if isinstance(topology, Topology | UniformCluster):
        return TopologyPricer(topology)
    if not hasattr(topology, "applicable"):
        raise wrong_type("select", "topology", topology, A_TOPOLOGY)
    return topology


def _on_host(size: int | None, profile: HostProfile | None) -> HostPricer:
    """The prices on this host, or on one of another profile."""
    if size is None:
        raise ValueError("select needs the number of ranks, or a topology")
    size = integer(size, "size", "select", 1, MOST_RANKS)
    return HostPricer(size, profile or host_profile())
