"""Create a process group of torch: a subgroup of a world, or a new world."""

from typing import Any

import torch.distributed as dist

from collalgo.bootstrap.connect import connect_over
from collalgo.bootstrap.foreign_stores import TorchStore
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.integrations.torch.group import CollalgoGroup


def create(opts: Any, _backend_options: Any) -> CollalgoGroup:
    """The process group for torch: a subgroup of its world, or a new world."""
    seconds = opts.timeout.total_seconds()
    ranks = opts.global_ranks_in_group
    world = dist.group.WORLD
    if ranks and isinstance(world, CollalgoGroup) and not world.comm.closed:
        comm = world.comm.group(ranks)
    else:
        store, rank, size = TorchStore(opts.store), opts.group_rank, opts.group_size
        arguments = JoinArguments(store, rank, size, timeout=seconds)
        comm = Communicator(connect_over(store, arguments))
        current.of_process.foreign = comm
    comm.timeout = seconds
    return CollalgoGroup(comm, opts.store)
