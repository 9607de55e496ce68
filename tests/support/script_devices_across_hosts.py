"""Ranks on several hosts with simulated devices, whose memory the engine can access.

``script_devices_across_hosts.py DUTY,... LAYOUT``, as for ``script_across_hosts.py``.
"""

import os
import signal
import sys
import threading
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support import fake_device_memory

# The addresses of its memory are those of the host, which real engines take.
fake_device_memory.ELSEWHERE = 0

layout = [int(part) for part in sys.argv[2].split("+")]
names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK")
me = next(int(os.environ[name]) for name in names if name in os.environ)
os.environ.setdefault(
    "COLLALGO_HOST", str(sum(me >= last for last in accumulate(layout)))
)
os.environ["COLLALGO_CUDA_AWARE"] = "0" if sys.argv[1] == "staged" else "1"

import numpy as np  # noqa: E402

import collalgo  # noqa: E402
from collalgo import (  # noqa: E402
    ALGORITHMS,
    CollalgoError,
    CollectiveTimeout,
    PeerFailed,
)
from collalgo.engine.devices import arrays  # noqa: E402
from tests.support.fake_cuda import StandIn  # noqa: E402

CALLS = {
    "allreduce": lambda c, x, **k: c.allreduce(x, **k),
    "broadcast": lambda c, x, **k: c.broadcast(x, root=c.size - 1, **k),
    "allgather": lambda c, x, **k: c.allgather(x, **k),
    "reduce_scatter": lambda c, x, **k: c.reduce_scatter(x, **k),
    "alltoall": lambda c, x, **k: c.alltoall(x, **k),
    "scan": lambda c, x, **k: c.scan(x, **k),
}


def right(comm, device):
    """Calls give what they give on the host, in the background too."""
    check_calls(comm, device)
    explained = comm.select("allreduce", 8000, devices=True).explain()
    assert f"moved its arrays by {comm.engine}\n" in explained


def staged(comm, device):
    """So they do by way of the host."""
    check_calls(comm, device)
    explained = comm.select("allreduce", 8000, devices=True).explain()
    assert "moved its arrays by copies through the host\n" in explained


def check_calls(comm, device):
    for number, row in enumerate(ALGORITHMS[::5]):
        call = CALLS.get(row.collective)
        if call is None or row.obstacle(comm.size) is not None:
            continue
        count = comm.size * (1, 50_021)[number % 2]
        values = np.arange(count, dtype=np.float32) % 7 + comm.rank
        expected = call(comm, values.copy(), algorithm=row.name)
        found = call(comm, device.array(values), algorithm=row.name)
        np.testing.assert_array_equal(device.values(found), expected, row.name)
    x = device.array(np.ones(1000))
    comm.allreduce_async(x).wait_stream()
    assert (device.values(x) == comm.size).all()


def killed(comm, device):
    """The stream of the last rank stands still, and then the rank is killed."""
    x = device.array(np.ones(100_000))
    comm.allreduce(x)
    if comm.rank == comm.size - 1:
        device.gate()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        comm.allreduce(x)
    except PeerFailed as error:
        assert error.missing == (comm.size - 1,), error
        print(f"done {comm.rank}: killed;", flush=True)
    sys.exit()


def late(comm, device):
    """The stream of the last rank stands still for too long."""
    x = device.array(np.ones(100_000))
    comm.allreduce(x)
    gate = None
    if comm.rank == comm.size - 1:
        gate = device.gate()
        threading.Timer(2.5, gate.set).start()
    comm.timeout = 1.0
    try:
        comm.allreduce(x)
    except CollectiveTimeout as error:
        assert " waited 1 s for " in str(error), error
    else:
        raise AssertionError("no error")


def busy(comm, device):
    """Another thread calls while the stream of the last rank stands still."""
    x = device.array(np.ones(100_000))
    comm.allreduce_async(x).wait()
    if comm.rank == comm.size - 1:
        threading.Timer(0.6, device.gate().set).start()
    refused = []

    def call_too():
        try:
            comm.barrier()
        except CollalgoError as error:
            refused.append(str(error))

    other = threading.Timer(0.2, call_too)
    other.start()
    comm.allreduce(x)
    other.join()
    assert "is in another call on this communicator, in another" in refused[0]
    assert (device.values(x) == comm.size**2).all()


DUTIES = {each.__name__: each for each in (right, staged, killed, late, busy)}


def main():
    comm = collalgo.init(timeout=60)
    device = StandIn(os.getpid(), 0)
    arrays.runtime_of = lambda _: device
    for duty in sys.argv[1].split(","):
        DUTIES[duty](comm, device)
        print(f"done {comm.rank}: {duty};", flush=True)


main()
