"""Partitions of the ranks, for the bound of an allreduce.

With k parts, each element must leave all parts but one, to be reduced, and the result
must enter all parts but one: 2 (k - 1) crossings per element (Patarasuk, Yuan, 2009).
The worst partition is the one that determines the strength of a graph (Cunningham,
1985), here of the ranks, with least cuts around them as other devices only forward.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from collalgo.cost.cuts import EVERY_RANK, GRAIN, Network
from collalgo.cost.flows import DeviceSet, Ends
from collalgo.topology.domains import levels


class Partition(NamedTuple):
    """Disjoint sets of devices that have all ranks.

    Attributes
    ----------
    noun : str
        The noun of the sets.
    parts : list of set of str
        The sets, or those of one host if all hosts are uniform.
    hosts : int
        The number of such hosts.
    """

    noun: str
    parts: list[DeviceSet]
    hosts: int = 1

    def number(self, network: Network) -> int:
        """The number of sets."""
        return self.hosts * network.number(self.parts)

    def leaving(self, network: Network) -> Fraction:
        """The GB/s out of each set, in total."""
        return self.hosts * network.leaving(*self.parts)

    def per_byte(self, network: Network) -> Fraction:
        """The least seconds per 10^9 bytes of an allreduce across it."""
        return 2 * (self.number(network) - 1) / self.leaving(network)


def worst_partition(network: Network, per_byte: Fraction) -> Partition | None:
    """A partition that takes longer than some seconds per 10^9 bytes, or None.

    It is the worst of all, by Newton's iteration; of uniform hosts or very many ranks
    it is the worst of those into ranks, hosts and the groups inside hosts.
    """
    found = None
    for one in _candidates(network):
        if one.per_byte(network) > per_byte:
            found, per_byte = one, one.per_byte(network)
    if _is_uniform(network) or len(network.ranks) > EVERY_RANK:
        return found
    while True:
        one = _grouped(network, _overloaded(network, per_byte))
        if len(one.parts) < 2 or one.per_byte(network) <= per_byte:
            return found
        found, per_byte = one, one.per_byte(network)


def _is_uniform(network: Network) -> bool:
    return bool(network.counts or network.ranks_per_host)


def _candidates(network: Network) -> Iterator[Partition]:
    """The partitions into ranks, hosts, and the groups of each level inside hosts."""
    yield Partition("ranks", [frozenset([rank]) for rank in network.ranks])
    hosts = network.number(network.hosts)
    if hosts > 1:
        yield Partition("hosts", network.hosts)
    for level in levels(network.topology):
        if _is_uniform(network):
            groups = [part for part in level.parts if network.hosts[0].issuperset(part)]
        else:
            groups, hosts = list(level.parts), 1
        if 1 < len(groups) <= EVERY_RANK:
            yield _grouped(network, [*map(frozenset, groups)], hosts)


def _grouped(network: Network, groups: list[DeviceSet], hosts: int = 1) -> Partition:
    """The partition into some groups of ranks, with the devices around each."""
    noun = f"groups of ranks{_examples(network, groups, hosts)}"
    return Partition(noun, [*map(network.around, groups)], hosts)


def _examples(network: Network, groups: list[DeviceSet], hosts: int) -> str:
    """The widest group, and the number of those that are single ranks."""
    widest = network.describe(max(groups, key=len))
    alone = hosts * sum(network.ranks_in(group) == 1 for group in groups)
    others = hosts * len(groups) - alone
    if not alone or not others:
        return f" such as {widest}"
    first = widest if others == 1 else f"{others} such as {widest}"
    rest = f"each of the other {alone} ranks" if alone > 1 else "the other rank"
    return f" ({first}, and {rest})"


def _overloaded(network: Network, per_byte: Fraction) -> list[DeviceSet]:
    """The partition whose parts can send the fewest bytes, beyond two crossings.

    With 2 (k - 1) crossings for k parts, it takes longer than that time if any does.
    The sum over parts of a submodular function is least for the partition that a greedy
    algorithm finds, with a least cut for each rank (Dilworth truncation). All amounts
    are integers: multiples of 1 / (denominator of the time * GRAIN).
    """
    crossings = 2 * per_byte.denominator * GRAIN
    share: dict[str, int] = {}
    parts: list[DeviceSet] = []
    for number, rank in enumerate(network.ranks):
        gains: dict[str, int | None] = {v: y for v, y in share.items() if y > 0}
        sources: Ends = {rank: None} | gains
        sinks: Ends = {v: -y for v, y in share.items() if y < 0} | dict.fromkeys(
            network.ranks[number + 1 :]
        )
        value, side = 0, frozenset(network.ranks)
        if sinks:
            value, side = network.least_cut(sources, sinks, per_byte.numerator)
        share[rank] = value - crossings - sum(y for y in share.values() if y > 0)
        joined = [part for part in parts if part & side]
        parts = [part for part in parts if not part & side]
        parts.append(frozenset([rank]).union(*joined))
    return parts
