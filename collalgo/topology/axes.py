"""The dimensions of the mesh or torus that the links between ranks form."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from operator import mul

from collalgo.topology.domains import host_of
from collalgo.topology.model import Topology

#: Whether two nodes of a possible grid, given by number, are linked.
Near = Callable[[int, int], bool]


def axes_of(topology: Topology, devices: Sequence[str]) -> tuple[int, ...]:
    """The dimensions of the grid of ranks in their order, the first fastest.

    The links join either the devices or their hosts; then the ranks of a host are the
    first dimension, if there are several. The result is empty unless neighbours along
    at least two dimensions are linked.
    """
    if found := _grid(len(devices), _near(topology, devices, str)):
        return found
    each = Counter(host_of(topology, device) for device in devices)
    hosts, count = list(each), each[host_of(topology, devices[0])]
    filled = [host for host in hosts for _ in range(count)]
    if filled != [host_of(topology, device) for device in devices]:
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
    """The dimensions along which nodes are linked, if there are two or more."""
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
    """Whether each node of a grid is linked to the next one on every axis."""
    return prod(dims) == count and all(
        near(i, i + stride)
        for length, stride in zip(dims, accumulate(dims, mul, initial=1), strict=False)
        for i in range(count)
        if i // stride % length + 1 < length
    )
