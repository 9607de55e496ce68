"""A rank of a job that random events disturb: ``FOLDER``.

It notes each step that it commits, until the folder has a file ``end``.
"""

import os
import socket
import sys
import time
from pathlib import Path

import numpy as np

from collalgo import elastic

folder = Path(sys.argv[1])
name = f"{os.getpid()} {socket.gethostname()}"
notes = os.open(folder / "notes" / name, os.O_CREAT | os.O_WRONLY)


@elastic.run
def train(comm, state):
    while True:
        is_end = np.array([(folder / "end").exists()], np.uint8)
        if comm.allreduce(is_end, "max")[0]:
            return
        state.weights += elastic.sum_shards(
            comm, 8, lambda k: np.sin(state.weights * (k + state.step))
        )
        state.step += 1
        state.commit()
        os.pwrite(notes, f"{state.step:9} {comm.size:9}".encode(), 0)
        time.sleep(0.005)


state = elastic.State(weights=np.full(9, 0.1), step=0)
train(state)
(folder / "ends" / name).write_text(f"{state.step} {state.weights.tobytes().hex()}")
