"""Create a process group of torch: a subgroup of a world, or a new world."""

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from collalgo.base.environment import TIMEOUT
from collalgo.base.signal_handlers import dump_stacks_on_quit
from collalgo.bootstrap.connect import connect_over
from collalgo.bootstrap.foreign_stores import TorchStore
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.comm.tracing.dump import listen
from collalgo.integrations.torch.group import CollalgoGroup
from collalgo.integrations.torch.mixed import MixedGroup, asked_backends, other_groups
from collalgo.integrations.torch.options import Options, checked
from collalgo.integrations.torch.rendezvous import Launched


def create(opts: Any, pg_options: Any) -> CollalgoGroup:
    """The process group for torch: a subgroup of its world, or a new world."""
    listen()
    dump_stacks_on_quit()
    backends = asked_backends()
    own = [device for device, name in backends.items() if name == "collalgo"]
    if len(own) == len(backends) or isinstance(pg_options, Options):
        options, of_others = checked(pg_options), None
    else:
        options, of_others = Options(), pg_options
    with other_groups(backends, opts, of_others) as others:
        comm = _communicator(opts, options)
    if others:
        return MixedGroup(comm, opts.store, others, own)
    return CollalgoGroup(comm, opts.store)


def _communicator(opts: Any, options: Options) -> Communicator:
    """The communicator of a process group, and of the process if it is the world."""
    seconds = opts.timeout.total_seconds()
    ranks = opts.global_ranks_in_group
    world = dist.group.WORLD
    if ranks and isinstance(world, CollalgoGroup) and not world.comm.closed:
        comm = world.comm.group(ranks)
    else:
        here = opts.group_rank, opts.group_size
        launched = None if ranks else Launched.communicator(*here)
        comm = launched or _over_store(opts, seconds)
        current.of_process.foreign = comm
    comm.timeout = _seconds_of_calls(opts.timeout)
    options.apply(comm)
    return comm


def _seconds_of_calls(timeout: timedelta) -> float:
    """The timeout of a group for its calls; ``COLLALGO_TIMEOUT`` for torch's default.

    Torch does not tell whether its default was passed.
    """
    given: float | None = TIMEOUT.value() if timeout == default_pg_timeout else None
    return timeout.total_seconds() if given is None else given


def _over_store(opts: Any, seconds: float) -> Communicator:
    """A new communicator, whose ranks connect over the store of torch."""
    rank, size = opts.group_rank, opts.group_size
    arguments = JoinArguments(TorchStore(opts.store, rank), rank, size, timeout=seconds)
    return Communicator(connect_over(arguments.store, arguments))
