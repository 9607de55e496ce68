"""Workers of jobs of the same kind, of collalgo and of torch.

Each prints every step that it has made, in an allreduce, as a line of JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable
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


def lighthouse(address: str) -> None:
    """The rendezvous of the replicas of torchft."""
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(address, min_replicas=2, join_timeout_ms=1000)
    while server.address():
        time.sleep(1.0)


# Long: the arguments of a manager.
def torchft(lighthouse: str) -> None:
    """A replica of torchft, with gloo."""
    import torch
    from torch.distributed import ReduceOp, TCPStore
    from torchft import Manager, ProcessGroupGloo

    x = torch.ones(1000)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    where = {"store_addr": "127.0.0.1", "store_port": store.port}
    place = {"rank": 0, "world_size": 1, "replica_id": f"worker-{os.getpid()}-"}
    manager = Manager(
        ProcessGroupGloo(timeout=TIMEOUT),
        load_state_dict=lambda found: x.copy_(found["x"]),
        state_dict=lambda: {"x": x},
        min_replica_size=2,
        timeout=TIMEOUT,
        lighthouse_addr=lighthouse,
        **where,
        **place,
    )
    while True:
        manager.start_quorum()
        manager.allreduce(x, reduce_op=ReduceOp.MAX).wait()
        if manager.should_commit():
            tell(manager.num_participants())


ROLES: dict[str, Callable[..., None]] = {
    "collalgo": collalgo,
    "torchrun": torchrun,
    "torchft": torchft,
    "lighthouse": lighthouse,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
