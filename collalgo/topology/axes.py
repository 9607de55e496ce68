"""The dimensions of the mesh or torus on which links join ranks, if there is one."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from operator import mul

from collalgo.topology.domains import host_of
from collalgo.topology.model import Topology

#: Whether there is a link between two of the nodes that may be a grid, by number.
Near = Callable[[int, int], bool]


def axes_of(topology: Topology, places: Sequence[str]) -> tuple[int, ...]:
    """The dimensions of the grid that ranks stand on in their order, the first fastest.

    Either links join their devices, or they join their hosts; then the first dimension
    are the ranks of a host, if there are several. There is no grid, and the outcome is
    empty, unless neighbours along at least two dimensions are joined.
    """
    if found := _grid(len(places), _near(topology, places, str)):
        return found
    each = Counter(host_of(topology, place) for place in places)
    hosts, count = list(each), each[host_of(topology, places[0])]
    filled = [host for host in hosts for _ in range(count)]
    if filled != [host_of(topology, place) for place in places]:
        return ()
    found = _grid(len(hosts), _near(topology, hosts, partial(host_of, topology)))
    return (count, *found) if found and count > 1 else found


def _near(
    topology: Topology, nodes: Sequence[str], node_of: Callable[[str], str]
) -> Near:
    number = {node: i for i, node in enumerate(nodes)}
    ends = [[number.get(node_of(end)) for end in link.ends] for link in topology.links]
    joined = {frozenset(pair) for pair in ends}
    return lambda i, j: frozenset((i, j)) in joined


def _grid(count: int, near: Near) -> tuple[int, ...]:
    """The dimensions along which nodes are joined, if there are two or more."""
    dims: list[int] = []
    stride = 1
    while stride < count:
        length = 1
        while length * stride < count and near((length - 1) * stride, length * stride):
            length += 1
        if length == 1:
            return ()
        dims.append(length)
        stride *= length
    return tuple(dims) if len(dims) > 1 and _complete(count, dims, near) else ()


def _complete(count: int, dims: Sequence[int], near: Near) -> bool:
    """Whether each node of a grid of so many is joined with the next on every axis."""
    return prod(dims) == count and all(
        near(i, i + stride)
        for length, stride in zip(dims, accumulate(dims, mul, initial=1), strict=False)
        for i in range(count)
        if i // stride % length + 1 < length
    )
