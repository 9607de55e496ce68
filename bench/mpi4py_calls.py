"""Time a few calls of mpi4py: under an MPI, or under ``collalgo run --as-mpi4py``.

mpiexec -n 2 python -m collalgo.bench.mpi4py_calls
collalgo run -n 2 --as-mpi4py -m collalgo.bench.mpi4py_calls
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: The bytes of each call, and how often it is repeated in one of the rounds.
SIZES = {8: 50, 4096: 50, 1 << 20: 5}
ROUNDS = 25


def calls(comm: Any, nbytes: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls, on arrays of some bytes."""
    rank, size = comm.Get_rank(), comm.Get_size()
    x, y = np.ones(nbytes // 8), np.ones(nbytes // 8)
    rows = np.ones((size, nbytes // 8))
    right, left = (rank + 1) % size, (rank - 1) % size
    yield "Allreduce", lambda: comm.Allreduce(x, y)
    yield "Bcast", lambda: comm.Bcast(x)
    yield "Allgather", lambda: comm.Allgather(x, rows)
    yield "Alltoall", lambda: comm.Alltoall(rows, np.empty_like(rows))
    yield "Sendrecv", lambda: comm.Sendrecv(x, right, 0, y, left, 0)
    yield "bcast", lambda: comm.bcast(x)
    yield "allreduce", lambda: comm.allreduce(rank)
    yield "sendrecv", lambda: comm.sendrecv(x, right, source=left)


def seconds(comm: Any, call: Callable[[], Any], repeats: int) -> float:
    """The time of a call: the least of the rounds, of the slowest rank."""
    found = []
    for _ in range(ROUNDS):
        comm.Barrier()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        found.append((time.perf_counter() - begin) / repeats)
    slowest: float = max(comm.allgather(min(found)))
    return slowest


def main() -> None:
    """Print the times in microseconds."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for nbytes, repeats in SIZES.items():
        for name, call in calls(comm, nbytes):
            call()
            taken = seconds(comm, call, repeats)
            if comm.Get_rank() == 0:
                print(f"{name} {nbytes} {1e6 * taken:.1f}", flush=True)


if __name__ == "__main__":
    main()
