"""What the ranks of a call on devices give and get."""

import itertools

import numpy as np

WORD = np.dtype(np.int64)


def world(collective, size, root, block, rng):
    """What each rank gives, and what it has to get (None: nothing)."""
    # Long: a table of the collectives.
    whole = size * block
    if collective == "barrier":
        return [np.empty(0, WORD)] * size, [None] * size
    length = {"allgather": block, "gather": block, "alltoall": whole}.get(
        collective, whole
    )
    given = [rng.integers(0, 1000, length) for _ in range(size)]
    if collective == "scatter":
        given = [g if rank == root else g[:0] for rank, g in enumerate(given)]
    joined, total = np.concatenate(given), None
    if collective != "scatter":
        total = np.sum(given, axis=0)
    sums = list(itertools.accumulate(given, np.add)) if collective != "scatter" else []
    got = {
        "allreduce": lambda rank: total,
        "reduce": lambda rank: total if rank == root else None,
        "broadcast": lambda rank: given[root] if rank != root else None,
        "allgather": lambda rank: joined,
        "gather": lambda rank: joined if rank == root else None,
        "reduce_scatter": lambda rank: total[rank * block :][:block],
        "scatter": lambda rank: (
            given[root][rank * block :][:block] if rank != root else None
        ),
        "alltoall": lambda rank: np.concatenate(
            [g[rank * block :][:block] for g in given]
        ),
        "scan": lambda rank: sums[rank],
        "exscan": lambda rank: sums[rank - 1] if rank else None,
    }[collective]
    return given, [got(rank) for rank in range(size)]


def in_place_of(collective, size, block):
    """Where the output begins, counted from the input, if it may be the same memory."""
    return {
        "allreduce": lambda _: 0,
        "reduce": lambda _: 0,
        "broadcast": lambda _: 0,
        "scan": lambda _: 0,
        "exscan": lambda _: 0,
        "allgather": lambda rank: -rank * block,
        "reduce_scatter": lambda rank: rank * block,
    }.get(collective)
