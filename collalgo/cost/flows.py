"""Greatest flows and least cuts, in a network of sets of devices that are alike."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from collalgo.cost.equitable import EquitablePartition

DeviceSet = frozenset[str]

#: The largest flow from or to each device; None for any amount.
Ends: TypeAlias = Mapping[str, int | None]

#: The ends of a flow from or to several devices.
SOURCE, SINK = "*source*", "*sink*"


def least_cut(
    alike: EquitablePartition, sources: Ends, sinks: Ends, factor: int
) -> tuple[int, DeviceSet]:
    """The greatest flow from sources to sinks, and the source side of a least cut.

    Parameters
    ----------
    alike
        The partition of the network.
    sources, sinks
        The largest flow from or to each device.
    factor
        A factor of the capacities of all links.
    """
    import networkx as nx
    from networkx.algorithms.flow import dinitz

    parts: dict[object, list[str]] = defaultdict(list)
    for device in sources.keys() | sinks.keys():
        parts[sources.get(device, 0), sinks.get(device, 0)].append(device)
    alike = alike.refined(parts.values())
    graph: nx.DiGraph[int | str] = nx.DiGraph()
    graph.add_nodes_from(range(len(alike.sets)))
    for a, b, capacity in alike.contracted():
        graph.add_edge(a, b, capacity=capacity * factor)
    for number, members in enumerate(alike.sets):
        one, count = next(iter(members)), len(members)
        if one in sources:
            graph.add_edge(SOURCE, number, **_limit(sources[one], count))
        if one in sinks:
            graph.add_edge(number, SINK, **_limit(sinks[one], count))
    value, (side, _) = nx.minimum_cut(graph, SOURCE, SINK, flow_func=dinitz)
    chosen = (alike.sets[number] for number in side if isinstance(number, int))
    return int(value), frozenset[str]().union(*chosen)


def _limit(each: int | None, count: int) -> dict[str, int]:
    """The attributes of a link to some devices; without a capacity it is unlimited."""
    return {} if each is None else {"capacity": each * count}
