"""The cuts that limit collectives in which every rank sends to every other."""

from collections.abc import Iterator

from collalgo.cost.cuts import Network
from collalgo.cost.flows import DeviceSet
from collalgo.topology.domains import levels


def candidate_cuts(network: Network) -> Iterator[DeviceSet]:
    """The cuts around single ranks, hosts, levels, and halves of hosts."""
    for rank in network.ranks:
        yield frozenset([rank])
    yield from network.hosts
    for half in (network.hosts[: len(network.hosts) // 2], network.hosts[::2]):
        yield frozenset[str]().union(*half)
    for level in levels(network.topology):
        for part in network.different(level.parts):
            yield network.around(part)
