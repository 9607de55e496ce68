"""A worker that tells in which worlds it connects: ``SIZE STEPS DEATHS``.

The first step waits for all workers of an elastic job of that size. ``DEATHS`` has
``RANK:STEP,...``: the present rank is killed before that step.
"""

import os
import signal
import sys
import time

import numpy as np

from collalgo import elastic
from collalgo.bootstrap.former_world import FormerWorld

size, steps = int(sys.argv[1]), int(sys.argv[2])
deaths = [tuple(map(int, each.split(":"))) for each in sys.argv[3].split(",")]
connect = FormerWorld.connect


def tell(former, name, members, *further):
    print(f"formerly {tuple(members)}", flush=True)
    return connect(former, name, members, *further)


FormerWorld.connect = tell


@elastic.run
def train(comm, state):
    print(f"{comm.size} members from step {state.step}", flush=True)
    while state.step == 0 and comm.size < size:
        time.sleep(0.01)
        state.commit()
    while state.step < steps:
        if comm.size == state.size and (comm.rank, state.step) in deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        state.weights += elastic.sum_shards(
            comm, 8, lambda k: np.sin(state.weights * (k + state.step))
        )
        state.step, state.size = state.step + 1, comm.size
        state.commit()


state = elastic.State(weights=np.full(9, 0.1), step=0, size=0)
train(state)
print(f"at last {state.weights.tobytes().hex()}", flush=True)
