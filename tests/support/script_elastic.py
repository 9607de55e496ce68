"""A rank of a job under ``collalgo run --min``: ``STEPS DEATHS``.

``DEATHS`` has ``RANK:LIFE:STEP,...``: the rank is killed in that step in its life of
that number, from 0. With ``wait`` the last step but one waits for all ranks.
"""

import os
import signal
import sys
import time

import numpy as np

from collalgo import elastic

steps = int(sys.argv[1])
deaths = [tuple(map(int, each.split(":"))) for each in sys.argv[2].split(",") if each]
size = int(os.environ["WORLD_SIZE"])
me = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


@elastic.run
def train(comm, state):
    while state.step < steps:
        if (*me, state.step) in deaths:
            print(f"killed {time.monotonic()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        state.weights += elastic.sum_shards(
            comm, 8, lambda k: np.sin(state.weights * (k + state.step))
        )
        print(f"went on {time.monotonic()} with {comm.size}", flush=True)
        if "wait" in sys.argv and state.step == steps - 2 and comm.size < size:
            time.sleep(0.01)  # until the others are back
            state.restore()
        else:
            state.step += 1
        state.commit()
    return comm.size


state = elastic.State(weights=np.full(9, 0.1), step=0)
left = train(state)
print(f"{left} members, process {os.getpid()}: {state.weights.tobytes().hex()}")
