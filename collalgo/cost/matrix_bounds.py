"""The lower bound of an alltoallv: of any matrix of bytes between ranks.

It is the greatest of cuts around ranks, hosts and levels, and of the fractional flow of
all pairs at once with scipy.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from collalgo.cost.arcs import Arcs
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.candidate_cuts import candidate_cuts
from collalgo.cost.cuts import GRAIN, Network
from collalgo.cost.flows import DeviceSet
from collalgo.cost.lower_bound import Bound
from collalgo.cost.matrix_flow import flow_seconds
from collalgo.cost.routing import Routing
from collalgo.errors import TopologyError

#: The name of the collective.
ALLTOALLV = "alltoallv"

#: The relative difference up to which a cut is as good as the flow.
AS_GOOD = Fraction(1, 10**6)


def matrix_of(collective: str, counts: Any) -> ByteMatrix | None:
    """The bytes of an alltoallv; None for other collectives.

    Raises
    ------
    TopologyError
        If it has none, or another collective has.
    """
    if counts is None and collective == ALLTOALLV:
        raise TopologyError(
            "alltoallv has no counts; pass the bytes from each rank to each"
        )
    if counts is not None and collective != ALLTOALLV:
        raise TopologyError(
            f"{collective} has counts, which are for an alltoallv; leave them out"
        )
    if counts is None or isinstance(counts, ByteMatrix):
        return counts
    return ByteMatrix(counts)


def hosts_are_one(machine: str) -> TopologyError:
    """The error of a cluster, one of whose hosts represents all others."""
    return TopologyError(
        f"{machine}: the hosts of an alltoallv differ; load at most 256 of them by "
        "Topology.load, so that each has ranks of its own"
    )


class Cut(NamedTuple):
    """A side of a cut, and the seconds that its links take for 10^9 bytes of all."""

    side: DeviceSet
    receives: bool
    seconds: Fraction


#: The most flows of a linear programme over routes, and over links: more take minutes.
LARGE = (40_000, 20_000)

#: The same where the bytes of all pairs are equal, of which a cut is mostly the bound.
SMALL = (4_000, 10_000)


def matrix_bound(
    network: Network,
    matrix: ByteMatrix,
    routes: Routing | None = None,
    most: tuple[int, int] = LARGE,
) -> Bound:
    """The bound by bandwidth, for each byte of all pairs together.

    Parameters
    ----------
    network
        The links.
    matrix
        The bytes of all pairs of ranks.
    routes
        The routes of messages between ranks; by default data may take any path.
    most
        The most flows of a linear programme over routes, and over links.

    Raises
    ------
    TopologyError
        If the matrix is for another number of ranks, or the hosts are contracted.
    """
    matrix.check_size(network.size)
    if network.counts:
        raise hosts_are_one(network.topology.name)
    if not matrix.total:
        return Bound(
            ALLTOALLV, Fraction(0), tuple(network.ranks), "no bytes move", True
        )
    best = max(_cuts(network, matrix), key=lambda cut: cut.seconds)
    arcs, by_routes = _arcs(network, matrix, routes, most)
    flow = flow_seconds(arcs, matrix) if arcs else None
    if flow is not None and flow > best.seconds * (1 + AS_GOOD):
        return _by_flow(network, flow, by_routes)
    exact = flow is not None and flow >= best.seconds * (1 - AS_GOOD)
    return _by_cut(network, matrix, best, exact)


def _arcs(
    network: Network,
    matrix: ByteMatrix,
    routes: Routing | None,
    most: tuple[int, int],
) -> tuple[Arcs | None, bool]:
    """The hops of a linear programme that is not too large, and if of the routes.

    That over the routes of messages is never lower than that over the links.
    """
    size, sources = matrix.size, int(np.count_nonzero(matrix.nbytes.sum(axis=1)))
    if routes is not None and sources * size * (size - 1) <= most[0]:
        return Arcs.of_routes(routes, size), True
    arcs = Arcs.of_links(network)
    return arcs if sources * len(arcs.source) <= most[1] else None, False


def _cuts(network: Network, matrix: ByteMatrix) -> Iterator[Cut]:
    """Both directions of each cut that is tried."""
    number = {rank: i for i, rank in enumerate(network.ranks)}
    for side in candidate_cuts(network):
        inside = [number[rank] for rank in number if rank in side]
        outside = [number[rank] for rank in number if rank not in side]
        for receives, (sources, targets) in enumerate(
            ((inside, outside), (outside, inside))
        ):
            across = int(matrix.nbytes[sources][:, targets].sum())
            if across:
                seconds = Fraction(across, matrix.total) / network.leaving(side)
                yield Cut(side, bool(receives), seconds)


def _by_cut(network: Network, matrix: ByteMatrix, cut: Cut, exact: bool) -> Bound:
    """The bound by the links of one cut."""
    verb = "receive" if cut.receives else "send"
    share = float(cut.seconds * network.leaving(cut.side))
    order = [d.id for d in network.topology.devices() if d.id in cut.side]
    reason = (
        f"{network.describe(cut.side)} ({network.ranks_in(cut.side)} of {network.size} "
        f"ranks) must {verb} {share:.3g} of the {matrix.total} bytes, at most "
        f"{float(network.leaving(cut.side)):g} GB/s over {network.crossing(cut.side)}"
    )
    assumed = network.assumed_across([cut.side])
    return Bound(ALLTOALLV, cut.seconds, tuple(order), reason, exact, assumed=assumed)


def _by_flow(network: Network, seconds: Fraction, by_routes: bool) -> Bound:
    """The bound by the flow of all pairs, over the routes of messages or all links."""
    over = "the routes of messages" if by_routes else "any paths"
    words = f"no flow of all pairs of ranks at once is faster, over {over}"
    return by_programme(network, Bound(ALLTOALLV, seconds, (), words, True))


def by_programme(network: Network, found: Bound) -> Bound:
    """A bound by a linear programme of all links, which its reason describes."""
    whole = sum(sum(near.values()) for near in network.capacities.values())
    reason = (
        f"{found.reason}: the linear programme of {len(network.links)} links with "
        f"{whole / GRAIN:g} GB/s in total"
    )
    assumed = network.assumed_across([[device] for device in network.capacities])
    ranks = tuple(network.ranks)
    return replace(found, witness=ranks, reason=reason, assumed=assumed)
