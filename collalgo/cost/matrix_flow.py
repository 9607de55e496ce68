"""The fractional flow of many commodities: the lengths of links that prove its time.

The data from all ranks to all, split over any paths, takes at least the sum of the
bytes times the distances, for any lengths of the links whose sum over the capacities
is 1 (the dual of the linear programme; Iri, 1971, and Onaga and Kakusho, 1971). For the
best lengths it is the exact optimum. HiGHS proposes them; the sum is computed here in
integers, so that rounding in the solver cannot raise the bound above the optimum.
"""

from collections.abc import Mapping
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

import numpy as np

from collalgo.cost.arcs import Arcs
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.schedule.transfers import Ints, Reals

#: Lengths are integers up to this one, and so are the parts of a message on a link.
LONGEST, WHOLE = 1 << 40, 1 << 30


def flow_seconds(arcs: Arcs, matrix: ByteMatrix) -> Fraction | None:
    """The least seconds for 10^9 bytes of all pairs in these proportions.

    None without scipy.

    Parameters
    ----------
    arcs
        The hops that data may take.
    matrix
        The bytes of all pairs of ranks.
    """
    lengths = _proposed(arcs, matrix)
    return None if lengths is None else proved_seconds(arcs, matrix, lengths)


def proved_seconds(arcs: Arcs, matrix: ByteMatrix, lengths: Ints) -> Fraction:
    """The seconds that lengths of links prove, for 10^9 bytes of all pairs."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(arcs.devices)]
    ends = zip(arcs.source.tolist(), arcs.target.tolist(), strict=True)
    for (a, b), length in zip(ends, _of_arcs(arcs, lengths), strict=True):
        near[a].append((b, length))
    carried = 0
    for rank, row in enumerate(matrix.nbytes.tolist()):
        if any(row):
            found = _distances(near, rank)
            carried += sum(n * found[other] for other, n in enumerate(row) if n)
    pairs = zip(lengths.tolist(), arcs.capacity, strict=True)
    whole = sum(length * capacity for length, capacity in pairs) * WHOLE
    return Fraction(carried * 10**9, max(1, whole) * matrix.total)


def _of_arcs(arcs: Arcs, lengths: Ints) -> list[int]:
    """The length of each arc: that of its links by their parts, rounded down."""
    found = [0] * len(arcs.source)
    parts = np.floor(arcs.part * WHOLE).astype(np.int64).tolist()
    entries = zip(arcs.arc.tolist(), lengths[arcs.link].tolist(), parts, strict=True)
    for arc, length, part in entries:
        found[arc] += length * part
    return found


def _distances(near: list[list[tuple[int, int]]], start: int) -> Mapping[int, int]:
    """The distances of all devices from one (Dijkstra)."""
    found: dict[int, int] = {}
    queue = [(0, start)]
    while queue:
        far, device = heappop(queue)
        if device in found:
            continue
        found[device] = far
        for other, length in near[device]:
            if other not in found:
                heappush(queue, (far + length, other))
    return found


def _proposed(arcs: Arcs, matrix: ByteMatrix) -> Ints | None:
    """The best lengths of links, nearly; None without scipy or an optimum."""
    try:
        from scipy.optimize import linprog
    except ImportError:
        return None
    found = linprog(**_programme(arcs, matrix), method="highs")
    if not found.success:
        return None
    # The dual of a link is for the time that it is busy, a length for its bytes.
    prices = np.maximum(-found.ineqlin.marginals, 0) / np.array(arcs.capacity, float)
    if not prices.any():
        return None
    lengths: Ints = np.rint(prices * (LONGEST / prices.max())).astype(np.int64)
    return lengths


def _programme(arcs: Arcs, matrix: ByteMatrix) -> dict[str, Any]:
    """The least time of a flow from each rank, over links of limited capacity.

    The variables are the flow of each source over each arc, and the time.
    """
    from scipy.sparse import csr_array, eye_array, hstack, kron

    count, sources = len(arcs.source), np.flatnonzero(matrix.nbytes.sum(axis=1))
    number, speed = len(sources), np.array(arcs.capacity, float) / max(arcs.capacity)
    place, ones = np.arange(count), np.ones(count)
    enters = csr_array((ones, (arcs.target, place)), (arcs.devices, count))
    leaves = csr_array((ones, (arcs.source, place)), (arcs.devices, count))
    part = arcs.part / speed[arcs.link]
    busy = csr_array((part, (arcs.link, arcs.arc)), (len(speed), count))
    conserved = kron(eye_array(number), enters - leaves)
    shared = kron(np.ones((1, number)), busy)
    time = csr_array(-np.ones((len(speed), 1)))
    return {
        "c": np.append(np.zeros(count * number), 1.0),
        "A_ub": hstack([shared, time]).tocsr(),
        "b_ub": np.zeros(len(speed)),
        "A_eq": hstack([conserved, csr_array((conserved.shape[0], 1))]).tocsr(),
        "b_eq": _needed(arcs, matrix, sources),
    }


def _needed(arcs: Arcs, matrix: ByteMatrix, sources: Ints) -> Reals:
    """What each device keeps of the data of each source, as a part of the most."""
    number = len(sources)
    found = np.zeros((number, arcs.devices))
    found[:, : matrix.size] = matrix.nbytes[sources] / matrix.nbytes.max()
    found[np.arange(number), sources] -= found.sum(axis=1)
    return found.ravel()
