"""What ranks do on CUDA devices in the tests: a script for collalgo run.

Every algorithm on arrays of CuPy, which all ranks may have on one device, against the
same call on arrays of the host. With a number, it runs that many ranks as threads.
"""

import sys

import cupy as cp
import numpy as np

import collalgo
from collalgo import ALGORITHMS

CALLS = {
    "allreduce": lambda c, x, **k: c.allreduce(x, **k),
    "reduce": lambda c, x, **k: c.reduce(x, root=c.size - 1, **k),
    "broadcast": lambda c, x, **k: c.broadcast(x, root=c.size - 1, **k),
    "allgather": lambda c, x, **k: c.allgather(x, **k),
    "reduce_scatter": lambda c, x, **k: c.reduce_scatter(x, **k),
    "gather": lambda c, x, **k: c.gather(x, root=c.size - 1, **k),
    "scatter": lambda c, x, **k: c.scatter(
        x.reshape(c.size, -1) if c.rank == 0 else x[: len(x) // c.size].copy(), **k
    ),
    "alltoall": lambda c, x, **k: c.alltoall(x, **k),
    "scan": lambda c, x, **k: c.scan(x, **k),
    "exscan": lambda c, x, **k: c.exscan(x, **k),
}


def check_every_algorithm(comm):
    """On few elements and on more."""
    for row in ALGORITHMS:
        if row.collective == "barrier" or row.obstacle(comm.size) is not None:
            continue
        for count in (comm.size, comm.size * 1009):
            values = np.arange(count, dtype=np.float32) % 7 + comm.rank
            call = CALLS[row.collective]
            expected = call(comm, values.copy(), algorithm=row.name)
            found = call(comm, cp.asarray(values), algorithm=row.name)
            assert (found is None) == (expected is None), row.name
            if found is not None:
                np.testing.assert_array_equal(cp.asnumpy(found), expected, row.name)


def check_streams_and_graphs(comm):
    """What is captured can be replayed, and what is in the background waited for."""
    with cp.cuda.Stream(non_blocking=True) as stream:
        x = cp.full(1000, 1.0)
        comm.allreduce(x)
        stream.begin_capture()
        comm.allreduce(x)
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
        comm.allreduce_async(x).wait_stream()
        assert (x == float(comm.size) ** 5).all(), "graph"
        assert (comm.allreduce_async(x).wait() == float(comm.size) ** 6).all(), "wait"


def check(comm):
    """All of it, on one of the devices that there are."""
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    check_every_algorithm(comm)
    check_streams_and_graphs(comm)
    print("right", flush=True)


if len(sys.argv) > 1:
    collalgo.threads(check, int(sys.argv[1]), timeout=60)
else:
    check(collalgo.init(timeout=60))
