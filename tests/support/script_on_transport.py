"""A rank of a world for the conformance test of transports, as a process.

``script_on_transport.py SCENARIO FOLDER HOSTS ENGINE [RANK DESCRIPTOR]``, with the host
of each rank and the descriptor of the memory file of its host; under mpiexec without.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from collalgo._kernels.engine.transport.composite import Composite
from collalgo._kernels.engine.transport.network import Network
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo._kernels.engine.transport.ucx import UcxWire
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm
from collalgo.engine.transport.ucx import SETTINGS, library
from collalgo.engine.transport.waiting import waits
from tests.support.transport_rank import Rank
from tests.support.transport_scenarios import SCENARIOS, finish

scenario, folder, layout, engine, *mine = sys.argv[1:]
hosts = [int(host) for host in layout.split(",")]


def told(name, rank, data):
    """Write bytes for all ranks, and read those of each."""
    path = Path(folder) / f"{name}.{rank}"
    path.with_suffix(f".{rank}.new").write_bytes(data)
    path.with_suffix(f".{rank}.new").rename(path)
    found = []
    deadline = time.monotonic() + 60
    for other in range(len(hosts)):
        while True:
            with suppress(FileNotFoundError):
                found.append((Path(folder) / f"{name}.{other}").read_bytes())
                break
            assert time.monotonic() < deadline, f"rank {other} has not come"
            time.sleep(0.002)
    return found


def shared_memory(rank, descriptor):
    """The endpoint of a rank in the memory of its host."""
    here = [r for r, host in enumerate(hosts) if host == hosts[rank]]
    several = len(here) < len(hosts)
    processes = [int(told_by) for told_by in told("process", rank, b"%d" % os.getpid())]
    local = [processes[other] for other in here]
    size, me = len(here), here.index(rank)
    transport = SharedMemory(
        mapped(size, descriptor if descriptor >= 0 else shm.create(size)), me, size,
        waits(size, across=several), here if several else (), len(hosts),
        os.getpid() if len(shm.readable(local, me)) == size - 1 else 0,
    )  # fmt: skip
    for other, end in shm.process_ends(local, me).items():
        transport.watch(other, end)
    return transport


def ucx_wire(rank):
    wire = UcxWire(library()[1], SETTINGS, rank, len(hosts))
    wire.connect(told("address", rank, wire.address()))
    return wire


def mpi_rank():
    """The rank of this process, which has no memory file, and its wire."""
    from mpi4py import MPI

    from collalgo.engine.transport.mpi import OPEN_MPI_CARRIES, Mpi

    comm = MPI.COMM_WORLD.Dup()
    rank = comm.Get_rank()
    wire = Mpi(comm).wire(None, rank, len(hosts), 0)
    if engine == "mpi in long parts":
        wire.shortest, wire.longest, wire.longest_staged = OPEN_MPI_CARRIES
    return rank, -1, wire


def main():
    if engine.startswith("mpi"):
        rank, descriptor, wire = mpi_rank()
    else:
        rank, descriptor = map(int, mine)
        wire = ucx_wire(rank) if engine == "ucx" else None
    transport = shared_memory(rank, descriptor)
    left = lambda other, completed: None  # noqa: E731
    if wire is not None:
        network = Network(wire, range(len(hosts)), 0)
        transport = Composite(transport, network, len(hosts))
        left = transport.mark_departed
    across = tuple(hosts) if wire is not None else ()
    here = Rank(transport, folder, left, across)
    SCENARIOS[scenario](here)
    finish(here, but=[len(hosts) - 1] if "died" in scenario else [])
    transport.close()
    if isinstance(wire, UcxWire):
        wire.close("died" in scenario)


main()
