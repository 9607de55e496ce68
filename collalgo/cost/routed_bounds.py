"""Bounds by cuts, raised to the least time over the routes of messages.

A cut counts all links across it, also where no choice of messages loads them evenly.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.cuts import Network
from collalgo.cost.lower_bound import Bound
from collalgo.cost.matrix_bounds import AS_GOOD, SMALL, by_programme, matrix_bound
from collalgo.cost.routing import Routing
from collalgo.cost.tree_bounds import tree_seconds

#: The collective whose data takes any paths between pairs of ranks.
ALLTOALL = "alltoall"


def raised(found: Bound, network: Network, routes: Routing | None, root: str) -> Bound:
    """The bound of a collective, which a linear programme over the routes may raise.

    Parameters
    ----------
    found
        The bound by cuts, for each byte of the buffer.
    network, routes
        As of :func:`~collalgo.cost.matrix_bounds.matrix_bound`.
    root
        The device of the root.
    """
    if network.counts:
        return found
    if found.collective == ALLTOALL:
        return _by_flows(found, network, routes)
    return _by_trees(found, network, routes, root) if routes is not None else found


def _by_flows(found: Bound, network: Network, routes: Routing | None) -> Bound:
    """The bound of an alltoall, by the flow of all pairs."""
    size = network.size
    if size * (size - 1) > SMALL[1]:
        return found
    equal = ByteMatrix(np.ones((size, size), np.int64))
    flows = matrix_bound(network, equal, routes, SMALL)
    per_byte = flows.per_byte * (size - 1)
    if per_byte > found.per_byte * (1 + AS_GOOD):
        return replace(flows, collective=found.collective, per_byte=per_byte)
    return found


def _by_trees(found: Bound, network: Network, routes: Routing, root: str) -> Bound:
    """The bound of the best trees or paths."""
    at = network.ranks.index(root)
    least = tree_seconds(found.collective, routes, network.size, at)
    if least is None:
        return found
    seconds, exact = least
    per_byte = Fraction(seconds * 1e9).limit_denominator(10**9)
    if per_byte <= found.per_byte * (1 + AS_GOOD):
        return found
    words = "no trees of messages are faster over their routes"
    return by_programme(network, Bound(found.collective, per_byte, (), words, exact))
