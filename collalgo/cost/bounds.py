"""Lower bounds: how fast a collective can be on a topology, and what is in the way.

Every bound comes from a cut: what must leave a set of devices cannot leave it faster
than its links carry. The set is the witness. Nothing but the ranks computes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from collalgo.base.units import human_time
from collalgo.cost.cuts import GRAIN, SINK, SOURCE, Network, Part
from collalgo.cost.latencies import least_latency
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.routing import ranks_of
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology.domains import levels
from collalgo.topology.model import LinkKind, Topology


@dataclass(frozen=True)
class Bound:
    """How fast a collective can be at most, and why.

    Two things take time, which may overlap: what all bytes need to cross the narrowest
    cut, and what the first word needs to reach everybody.

    Attributes
    ----------
    collective : str
        Which.
    per_byte : Fraction
        Seconds for each 10^9 bytes of the buffer: of all of it for an allgather,
        reduce-scatter, gather or scatter, of what each rank has for an alltoall.
    witness : tuple of str
        The devices that nothing leaves faster; all ranks for a partition.
    reason : str
        The cut in words.
    exact : bool
        Whether some schedule of trees or flows attains the bound by bytes.
    latency : float
        Seconds without any bytes.
    """

    collective: str
    per_byte: Fraction
    witness: tuple[str, ...]
    reason: str
    exact: bool = False
    latency: float = 0.0

    def seconds(self, nbytes: float) -> float:
        """The least time for so many bytes."""
        return max(self.latency, float(self.per_byte) * nbytes / 1e9)

    def why(self, nbytes: float) -> str:
        """In words, what takes the least time for so many bytes."""
        if self.seconds(nbytes) > self.latency:
            return self.reason
        return f"a word needs {human_time(self.latency)} to reach every rank"

    @property
    def bandwidth(self) -> float:
        """GB/s of the buffer, at most."""
        return float(1 / self.per_byte) if self.per_byte else inf


def bound(
    collective: str,
    machine: Topology | UniformCluster,
    root: int = 0,
    kinds: Iterable[LinkKind] | None = None,
    figures: LinkModel = DEFAULTS,
) -> Bound:
    """The bound of a collective, by bandwidth and by latency.

    Parameters
    ----------
    collective
        One of :data:`BOUNDED`, which are all that there are.
    machine
        Its GPUs, else its cores, else its hosts, are the ranks.
    root
        The number of the rank, for collectives that have one. Of a cluster the host
        that has it is called the first.
    kinds
        Only links of these kinds may be used; by default all.
    figures
        What messages cost where links do not tell.

    Raises
    ------
    TopologyError
        For fewer than two ranks, a root that is none, or ranks that are apart.
    """
    if collective not in BOUNDED:
        raise TopologyError(f"there is no bound for {collective!r}")
    network = Network(machine, kinds)
    if not 0 <= root < network.size:
        raise TopologyError(f"root {root} is none of the {network.size} ranks")
    if isinstance(machine, UniformCluster):
        root %= len(machine.each)
    found = BOUNDED[collective](collective, network, network.ranks[root])
    if kinds is not None:
        return found
    return replace(found, latency=least_latency(collective, machine, figures))


def _allgather(collective: str, network: Network, _root: str) -> Bound:
    """The cut with the most ranks behind the least bandwidth, by Newton's iteration.

    A rate for each rank is feasible if every rank can receive that of all: a greatest
    flow from a source of all ranks. The least cut of a rank that cannot is a better
    witness. Trees attain the bound (Edmonds; ForestColl).
    """
    narrow = min(network.ranks, key=lambda rank: network.leaving(frozenset([rank])))
    witness: Part = frozenset(network.graph) - {narrow}
    while True:
        ratio = network.ratio(witness)
        better = _crowded(network, ratio)
        if better is None or network.ratio(better) <= ratio:
            break
        witness = better
    per_byte = ratio / network.size
    _, all_tried = network.tried()
    return _by_cut(collective, network, per_byte, witness, all_tried)


def _crowded(network: Network, ratio: Fraction) -> Part | None:
    """A set that too many ranks are in, if each sends 1 / ratio GB/s to all."""
    # All capacities times the numerator, so that they are whole.
    graph = network.scaled(ratio.numerator)
    each = ratio.denominator * GRAIN
    for rank in network.ranks:
        graph.add_edge(SOURCE, rank, capacity=each * network.ranks_in([rank]))
    for rank in network.tried()[0]:
        value, side = network.flow(graph, SOURCE, rank)
        if value < each * network.size:
            return side
    return None


def _broadcast(collective: str, network: Network, root: str) -> Bound:
    """The least cut between the root and any rank; trees attain it (Edmonds)."""
    tried, all_tried = network.tried(root)
    cuts = [network.flow(network.graph, root, rank) for rank in tried if rank != root]
    _, witness = min(cuts, key=lambda cut: cut[0])
    per_byte = 1 / network.leaving(witness)
    return _by_cut(collective, network, per_byte, witness, all_tried)


def _scan(collective: str, network: Network, root: str) -> Bound:
    """The least cut between any two ranks, one of which needs what the other has.

    That is so whatever their order, and links carry as much in both directions.
    """
    return replace(_broadcast(collective, network, root), exact=False)


def _scatter(collective: str, network: Network, root: str) -> Bound:
    """The cut with the most ranks behind the least bandwidth, the root outside."""
    others = [rank for rank in network.ranks if rank != root]
    witness: Part = frozenset(network.graph) - {root}
    while True:
        ratio = network.ratio(witness)
        graph = network.scaled(ratio.numerator)
        each = ratio.denominator * GRAIN
        for rank in others:
            graph.add_edge(rank, SINK, capacity=each * network.ranks_in([rank]))
        value, side = network.flow(graph, root, SINK)
        better = frozenset(network.graph) - side
        if value >= each * (network.size - 1) or network.ratio(better) <= ratio:
            break
        witness = better
    per_byte = ratio / network.size
    return _by_cut(collective, network, per_byte, witness, exact=True)


def _alltoall(collective: str, network: Network, _root: str) -> Bound:
    """The best of the cuts around single ranks, hosts, levels, and halves of hosts.

    Or what all links together carry, where blocks have to cross several, as on a torus.
    """
    n = network.size
    best, witness = Fraction(0), network.rank_set
    for part in _worth_a_look(network):
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
            f"a block crosses {mean:.3g} links of the network in the mean, which carry "
            f"{float(carried):g} GB/s in all"
        )
        return Bound(collective, in_all, tuple(network.ranks), reason)
    return _by_cut(collective, network, best, witness)


def _worth_a_look(network: Network) -> Iterator[Part]:
    for rank in network.ranks:
        yield frozenset([rank])
    yield from network.hosts
    for half in (network.hosts[: len(network.hosts) // 2], network.hosts[::2]):
        yield frozenset[str]().union(*half)
    for level in levels(network.topology):
        for part in level.parts:
            yield network.around(part)


def _allreduce(collective: str, network: Network, root: str) -> Bound:
    """The better of a cut, and of a partition of the ranks.

    Of k parts that hold all ranks, every element must leave all but one, and must come
    back to all but one: 2 (k - 1) crossings for each element.
    """
    cut = _broadcast(collective, network, root)
    best = Bound(collective, cut.per_byte, cut.witness, cut.reason)
    singles = [frozenset([rank]) for rank in network.ranks]
    for name, parts in (("ranks", singles), ("hosts", network.hosts)):
        count = network.number(parts)
        if count < 2:
            continue
        out = sum((network.leaving(part) for part in parts), Fraction(0))
        per_byte = 2 * (count - 1) / out
        if per_byte > best.per_byte:
            reason = (
                f"every element must leave all but one of {count} {name}, and "
                f"come back to all but one; {float(out):g} GB/s leave them in all"
            )
            best = Bound(collective, per_byte, tuple(network.ranks), reason)
    return best


def _by_cut(
    collective: str,
    network: Network,
    per_byte: Fraction,
    witness: Part,
    exact: bool = False,
) -> Bound:
    order = [d.id for d in network.topology.devices() if d.id in witness]
    reason = (
        f"{network.ranks_in(witness)} of {network.size} ranks are in "
        f"{network.words(witness)}, which {float(network.leaving(witness)):g} GB/s "
        f"leave: {network.crossing(witness)}"
    )
    return Bound(collective, per_byte, tuple(order), reason, exact)


def _nothing(collective: str, network: Network, _root: str) -> Bound:
    """No bytes are to move."""
    return Bound(collective, Fraction(0), tuple(network.ranks), "no bytes move")


#: The collectives that have a bound, and who computes that by bandwidth.
BOUNDED = {
    "allgather": _allgather,
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "barrier": _nothing,
    "broadcast": _broadcast,
    "exscan": _scan,
    "gather": _scatter,
    "reduce": _broadcast,
    "reduce_scatter": _allgather,
    "scan": _scan,
    "scatter": _scatter,
}


def bound_of(
    collective: str, machine: object, root: int = 0, figures: LinkModel = DEFAULTS
) -> Bound | None:
    """The bound of a collective on a machine, or None where none is known."""
    if collective not in BOUNDED or not isinstance(machine, Topology | UniformCluster):
        return None
    topology = machine.pair if isinstance(machine, UniformCluster) else machine
    if len(ranks_of(topology)) < 2:
        return None
    return bound(collective, machine, root, figures=figures)
