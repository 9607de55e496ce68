"""A rank of a job on several hosts, of which some are killed: ``RANK HOST DEATHS``.

The ranks of ``DEATHS`` are killed one after the other, and the others go on each time.
"""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

import collalgo
from collalgo import CommunicatorRevoked, PeerFailed

world = comm = collalgo.init(timeout=30)
killed = [int(rank) for rank in sys.argv[1].split(",")]
x = np.ones(10_000)
for number, rank in enumerate(killed, 1):
    try:
        comm.barrier()  # in which some may still be
        if world.rank == rank:
            print(f"killed {time.monotonic()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            comm.allreduce(x, "max")
    except PeerFailed:
        left = comm.shrink()
    assert left.size == world.size - number
    total = left.allreduce(np.array([world.rank]))[0]
    print(f"back {time.monotonic()}", flush=True)
    assert total == sum(set(range(world.size)) - set(killed[:number]))
    comm.close()
    comm = left
if comm.size > 1:
    try:
        comm.barrier()  # which may be broken off, too
        if comm.rank == 0:
            comm.revoke()
        comm.recv(np.empty(1), (comm.rank + 1) % comm.size)
        raise AssertionError("a message has come")
    except CommunicatorRevoked:
        assert comm.shrink().allreduce(np.array([1]))[0] == comm.size
print("right", flush=True)
