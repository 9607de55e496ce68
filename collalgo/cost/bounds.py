"""Lower bounds of collectives on a topology, and the cuts that prove them.

Each bound comes from a cut: data that must leave a set of devices is limited by the
links that leave it. The set is the witness. Only ranks reduce, no switch. Messages take
the routes of the topology, so that links that are on none of these do not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.candidate_cuts import candidate_cuts
from collalgo.cost.cuts import GRAIN, Network
from collalgo.cost.flows import DeviceSet
from collalgo.cost.latencies import least_latency, nearest_latency
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.lower_bound import Bound
from collalgo.cost.machine import (
    Machine,
    check_machine,
    check_root,
    with_assumed_speeds,
)
from collalgo.cost.matrix_bounds import matrix_bound, matrix_of
from collalgo.cost.partitions import Partition, worst_partition
from collalgo.cost.placement import Placement
from collalgo.cost.relaying import relays
from collalgo.cost.routed_bounds import raised
from collalgo.cost.routing import Routing
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.cost.used_links import used_links
from collalgo.errors import TopologyError
from collalgo.topology.model import LinkKind, Topology
from collalgo.topology.places import ranks_of

__all__ = ["BOUNDED", "Bound", "bound", "bound_of"]


def bound(
    collective: str,
    machine: Machine,
    root: int = 0,
    kinds: Iterable[LinkKind] | None = None,
    link_model: LinkModel = DEFAULTS,
    counts: ByteMatrix | Sequence[Sequence[int]] | None = None,
) -> Bound:
    """Compute the bound of a collective, by bandwidth and by latency.

    Parameters
    ----------
    collective
        One of :data:`BOUNDED`, or ``"alltoallv"`` with ``counts``.
    machine
        The machine; its GPUs, else its cores, its CPUs or its hosts, are the ranks.
    root
        The rank of the root of a rooted collective. In a cluster the host of the root
        counts as the first.
    kinds
        The kinds of links that may be used, whatever the routes of messages; by default
        all links on these routes.
    link_model
        The costs of a message that the links do not give.
    counts
        The bytes from each rank to each, of an alltoallv: its bound is over the bytes
        of all pairs together.

    Raises
    ------
    TopologyError
        For fewer than two ranks, a root out of range, disconnected ranks, or counts
        that are no matrix of the ranks.
    TypeError
        If the machine is not a topology.

    Examples
    --------
    >>> server = Topology.load("dgx_h100")
    >>> only_one = [
    ...     [1 << 30 if (i, j) == (0, 1) else 0 for j in range(8)] for i in range(8)
    ... ]
    >>> f"{bound('alltoallv', server, counts=only_one).bandwidth:g} GB/s"
    '450 GB/s'
    """
    check_machine(machine, "bound", "machine")
    matrix = matrix_of(collective, counts)
    if matrix is None and collective not in BOUNDED:
        raise TopologyError(f"there is no bound for {collective!r}")
    machine = with_assumed_speeds(machine, link_model)
    links = used_links(machine) if kinds is None else None
    network = Network(machine, kinds, links, link_model)
    check_root(root, network.size)
    if isinstance(machine, UniformCluster):
        root %= len(machine.host_devices)
    routes = Placement(machine, (), link_model).routes if links else None
    found = _by_bytes(collective, network, network.ranks[root], routes, matrix)
    if kinds is not None:
        return found
    latency = _latency(collective, machine, root, link_model, matrix)
    end = network.ranks[root]
    of_root = relays(collective, network, machine, end, link_model, routes)
    return replace(found, latency=latency, relays=of_root)


def _by_bytes(
    collective: str,
    network: Network,
    root: str,
    routes: Routing | None,
    matrix: ByteMatrix | None,
) -> Bound:
    """The bound by bandwidth."""
    if matrix is not None:
        return matrix_bound(network, matrix, routes)
    return raised(BOUNDED[collective](collective, network, root), network, routes, root)


def _latency(
    collective: str,
    machine: Machine,
    root: int,
    link_model: LinkModel,
    matrix: ByteMatrix | None,
) -> float:
    """The least seconds without bytes; in an alltoallv some ranks may send nothing."""
    if matrix is None:
        return least_latency(collective, machine, link_model, root)
    if matrix.is_full:
        return least_latency("alltoall", machine, link_model)
    return nearest_latency(machine, link_model) if matrix.total else 0.0


def _allgather(collective: str, network: Network, _root: str) -> Bound:
    """The cut with the most ranks per outgoing bandwidth, by Newton's iteration.

    A rate per rank is feasible if every rank can receive the data of all ranks: a
    greatest flow from a super-source. Otherwise the least cut before a rank is a better
    witness. Trees attain the bound (Edmonds; ForestColl).
    """
    narrow = min(network.ranks, key=lambda rank: network.leaving(frozenset([rank])))
    witness: DeviceSet = frozenset(network.capacities) - {narrow}
    while True:
        ratio = network.ratio(witness)
        better = _overfull_set(network, ratio)
        if better is None or network.ratio(better) <= ratio:
            break
        witness = better
    per_byte = ratio / network.size
    _, all_tried = network.flow_ends()
    return _by_cut(collective, network, per_byte, witness, all_tried)


def _overfull_set(network: Network, ratio: Fraction) -> DeviceSet | None:
    """A set that cannot send out 1 / ratio GB/s for each of its ranks, or None."""
    # All capacities are multiplied by the numerator, so that they are integers.
    each = ratio.denominator * GRAIN
    sources = {rank: each * network.ranks_in([rank]) for rank in network.ranks}
    for rank in network.flow_ends()[0]:
        value, side = network.least_cut(sources, {rank: None}, ratio.numerator)
        if value < each * network.size:
            return side
    return None


def _broadcast(collective: str, network: Network, root: str) -> Bound:
    """The least cut between the root and any rank; trees attain it (Edmonds)."""
    tried, all_tried = network.flow_ends(root)
    cuts = [
        network.least_cut({root: None}, {rank: None}) for rank in tried if rank != root
    ]
    _, witness = min(cuts, key=lambda cut: cut[0])
    per_byte = 1 / network.leaving(witness)
    return _by_cut(collective, network, per_byte, witness, all_tried)


def _scan(collective: str, network: Network, root: str) -> Bound:
    """The least cut between any two ranks, since one of them needs data of the other.

    That holds for any order of the ranks, as links are symmetric.
    """
    return replace(_broadcast(collective, network, root), exact=False)


def _scatter(collective: str, network: Network, root: str) -> Bound:
    """The cut with the most ranks per incoming bandwidth, with the root outside."""
    others = [rank for rank in network.ranks if rank != root]
    witness: DeviceSet = frozenset(network.capacities) - {root}
    while True:
        ratio = network.ratio(witness)
        each = ratio.denominator * GRAIN
        sinks = {rank: each * network.ranks_in([rank]) for rank in others}
        value, side = network.least_cut({root: None}, sinks, ratio.numerator)
        better = frozenset(network.capacities) - side
        if value >= each * (network.size - 1) or network.ratio(better) <= ratio:
            break
        witness = better
    per_byte = ratio / network.size
    return _by_cut(collective, network, per_byte, witness, exact=True)


def _alltoall(collective: str, network: Network, _root: str) -> Bound:
    """The best of the cuts around single ranks, hosts, levels, and halves of hosts.

    Or the bandwidth of all links together, where blocks cross several, as on a torus.
    """
    n = network.size
    best, witness = Fraction(0), network.rank_set
    for part in candidate_cuts(network):
        inside = network.ranks_in(part)
        if 0 < inside < n:
            per_byte = Fraction(inside * (n - inside), n) / network.leaving(part)
            if per_byte > best:
                best, witness = per_byte, part
    crossed, carried = network.crossings()
    in_all = Fraction(crossed, n) / carried
    if in_all > best:
        mean = crossed / (n * (n - 1))
        reason = (
            f"a block crosses {mean:.3g} network links on average, which carry "
            f"{float(carried):g} GB/s in total"
        )
        assumed = network.assumed_across([[device] for device in network.capacities])
        return Bound(collective, in_all, tuple(network.ranks), reason, assumed=assumed)
    return _by_cut(collective, network, best, witness)


def _allreduce(collective: str, network: Network, root: str) -> Bound:
    """The better of a cut and of a partition of the ranks."""
    cut = _broadcast(collective, network, root)
    worst = worst_partition(network, cut.per_byte)
    if worst is None:
        return replace(cut, exact=False)
    return _by_partition(collective, network, worst)


def _by_partition(collective: str, network: Network, one: Partition) -> Bound:
    reason = (
        f"every element must leave all but one of {one.number(network)} "
        f"{one.noun} and enter all but one; their links send at most "
        f"{float(one.leaving(network)):g} GB/s in total"
    )
    ranks, assumed = tuple(network.ranks), network.assumed_across(one.parts)
    per_byte = one.per_byte(network)
    return Bound(collective, per_byte, ranks, reason, assumed=assumed)


def _by_cut(
    collective: str,
    network: Network,
    per_byte: Fraction,
    witness: DeviceSet,
    exact: bool = False,
) -> Bound:
    order = [d.id for d in network.topology.devices() if d.id in witness]
    side, receives = witness, collective in RECEIVING
    if 2 * network.ranks_in(side) > network.size:  # the others limit
        side, receives = frozenset(network.capacities) - side, not receives
    reason = (
        f"{network.describe(side)} ({network.ranks_in(side)} of {network.size} "
        f"ranks) can {'receive' if receives else 'send'} at most "
        f"{float(network.leaving(witness)):g} GB/s over {network.crossing(side)}"
    )
    assumed = network.assumed_across([witness])
    return Bound(collective, per_byte, tuple(order), reason, exact, assumed=assumed)


def _no_bytes(collective: str, network: Network, _root: str) -> Bound:
    """No bytes move."""
    return Bound(collective, Fraction(0), tuple(network.ranks), "no bytes move")


#: The collectives in which the witness of a cut receives.
RECEIVING = ("reduce", "reduce_scatter", "scatter")

#: The collectives with a bound, and the function of its bandwidth term.
BOUNDED = {
    "allgather": _allgather,
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "barrier": _no_bytes,
    "broadcast": _broadcast,
    "exscan": _scan,
    "gather": _scatter,
    "reduce": _broadcast,
    "reduce_scatter": _allgather,
    "scan": _scan,
    "scatter": _scatter,
}


def bound_of(
    collective: str, machine: object, root: int = 0, link_model: LinkModel = DEFAULTS
) -> Bound | None:
    """The bound of a collective on a machine, or None where none is known."""
    if collective not in BOUNDED or not isinstance(machine, Topology | UniformCluster):
        return None
    topology = machine.pair if isinstance(machine, UniformCluster) else machine
    if len(ranks_of(topology)) < 2:
        return None
    return bound(collective, machine, root, link_model=link_model)
