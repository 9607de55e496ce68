"""Print how many different sums the elements of an allreduce have, for each count.

The elements are equal on each rank, so sums differ only where an algorithm adds them in
different orders, as a ring of four ranks does in each chunk.
"""

import json
import sys

import numpy as np
from mpi4py import MPI

#: Four values whose sum depends on the order.
VALUES = (1.0, 1.5 * 2**-24, 1.5 * 2**-24, -1.0)

world = MPI.COMM_WORLD
found = []
for count in map(int, sys.argv[1:]):
    x = np.full(count, VALUES[world.rank], np.float32)
    total = np.empty_like(x)
    world.Allreduce(x, total)
    found.append(len(np.unique(total)))
if world.rank == 0:
    print(json.dumps(found))
