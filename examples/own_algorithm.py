"""A custom allreduce: written, proved, drawn, priced and run.

collalgo verify examples/own_algorithm.py
collalgo algorithms show examples/own_algorithm.py -n 6 --svg pairs.svg
collalgo select allreduce 1048576 -n 6 --load examples/own_algorithm.py
python examples/own_algorithm.py
"""

import numpy as np

import collalgo
from collalgo import recv, recv_reduce, send
from collalgo.algorithms import ring


def odd(size):
    """The reason why the algorithm cannot run on ``size`` ranks, or None."""
    return f"needs an even number of ranks but there are {size}" if size % 2 else None


@collalgo.algorithm("allreduce", "mirrored_pairs", obstacle=odd)
def mirrored_pairs(group):
    """Mirrored ranks swap halves, reduce each around a ring, and swap the results."""
    partner = group.peer(group.size - 1 - group.rank)
    low, high = range(group.size // 2), range(group.size // 2, group.size)
    halves = [half.whole for half in group.shares(2)]
    mine, other = halves if group.rank in low else halves[::-1]
    yield send(partner, other), recv_reduce(partner, mine)
    side = group.subset(low if group.rank in low else high)
    yield from ring.allreduce(side.sharing(mine))
    yield send(partner, mine), recv(partner, other)


def on_each_rank(comm):
    """Run it on data with a known sum."""
    x = np.arange(1000) + comm.rank
    collalgo.allreduce(x, comm, algorithm="mirrored_pairs")
    return np.array_equal(x, comm.size * np.arange(1000) + sum(range(comm.size)))


if __name__ == "__main__":
    for size in (2, 6, 16):
        proof = collalgo.verify("mirrored_pairs", size=size)
        right = all(collalgo.threads(on_each_rank, size))
        print(f"{proof}; the sum is {'right' if right else 'wrong'}")
