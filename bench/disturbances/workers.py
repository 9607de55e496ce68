"""Workers of jobs of the same kind, of collalgo and of torch.

Each prints every step that it has made, in an allreduce, as a line of JSON.
"""

import json
import os
import sys
import time
from datetime import timedelta

import numpy as np

from collalgo import Communicator, elastic

#: Seconds between two steps.
PAUSE = 0.005

#: Seconds of timeouts of torch: its least that no slow step meets.
TIMEOUT = timedelta(seconds=10)


def tell(size: int) -> None:
    """Report a step of some workers."""
    os.write(1, json.dumps([os.getpid(), size, time.monotonic()]).encode() + b"\n")
    time.sleep(PAUSE)


def collalgo() -> None:
    """Under ``collalgo run --min``."""
    x = np.ones(1000)

    @elastic.run
    def train(comm: Communicator, state: elastic.State) -> None:
        while True:
            comm.allreduce(x, "max")
            state.step += 1
            state.commit()
            tell(comm.size)

    train(elastic.State(step=0))


def torchrun() -> None:
    """Under torchrun, with gloo."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=TIMEOUT)
    x = torch.ones(1000)
    while True:
        dist.all_reduce(x, dist.ReduceOp.MAX)
        tell(dist.get_world_size())


if __name__ == "__main__":
    {"collalgo": collalgo, "torchrun": torchrun}[sys.argv[1]]()
