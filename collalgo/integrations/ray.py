"""The collectives of Ray on the engine: ``register()``, then the backend ``COLLALGO``.

A group has the calls of ``ray.util.collective`` on arrays in host memory. Its actors
connect over the key-value store of Ray; those on one host then use shared memory.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import ray.experimental.internal_kv as ray_store
from ray.util.collective.backend_registry import register_collective_backend
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

from collalgo.base.polling import awaited
from collalgo.bootstrap.connect import connect_over
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.comm.communicator import Communicator
from collalgo.errors import BootstrapError

#: The name of the backend.
BACKEND = "COLLALGO"

#: Seconds between two reads of a key that does not exist yet.
POLL_SECONDS = 0.01

# The options of calls that pass none.
ALLREDUCE, BARRIER, REDUCE = AllReduceOptions(), BarrierOptions(), ReduceOptions()
ALLGATHER, BROADCAST = AllGatherOptions(), BroadcastOptions()
REDUCESCATTER = ReduceScatterOptions()

#: Ray's names of the ops, where they differ.
OPS = {"product": "prod"}


def register() -> None:
    """Register the backend; every actor calls it, and so does the driver."""
    register_collective_backend(BACKEND, RayGroup)


class RayStore:
    """The key-value store of Ray as an :class:`~.store.protocol.ExchangeStore`.

    It may have the keys of an earlier group of this name: each rank counts its groups,
    and each group has keys of its own.

    Parameters
    ----------
    name
        The name of the group.
    rank
        The rank of this process.
    """

    def __init__(self, name: str, rank: int):
        count = f"collalgo/{name}/{rank}"
        number = int(ray_store._internal_kv_get(count) or b"0") + 1
        ray_store._internal_kv_put(count, str(number).encode(), overwrite=True)
        self._prefix = f"{count.rpartition('/')[0]}/groups/{number}/"
        self._written: list[str] = []

    def set(self, key: str, value: bytes) -> None:
        """Set a key that does not exist yet."""
        ray_store._internal_kv_put(self._prefix + key, value)
        self._written.append(self._prefix + key)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        late = BootstrapError(
            f"Ray's store has no key {key} after {timeout:g} s; check that all actors "
            "create the group"
        )
        read = partial(ray_store._internal_kv_get, self._prefix + key)
        return awaited(read, timeout, POLL_SECONDS, late)

    def remove(self) -> None:
        """Remove the keys that this process has set."""
        for key in self._written:
            ray_store._internal_kv_del(key)
        self._written.clear()


class RayGroup(BaseGroup):
    """A group of ``ray.util.collective`` on a communicator.

    Parameters
    ----------
    world_size
        The number of its actors.
    rank
        The rank of this actor.
    group_name
        Its name.

    Attributes
    ----------
    comm
        The communicator, for calls that Ray does not have.
    """

    def __init__(self, world_size: int, rank: int, group_name: str):
        super().__init__(world_size, rank, group_name)
        self._store = RayStore(group_name, rank)
        position = rank, world_size
        arguments = JoinArguments(self._store, *position, timeout=JOIN_TIMEOUT)
        self.comm = Communicator(connect_over(self._store, arguments))

    @classmethod
    def backend(cls) -> str:
        return BACKEND

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        self.comm.close()
        self._store.remove()

    def allreduce(self, tensor: Any, allreduce_options: Any = ALLREDUCE) -> None:
        op, seconds = _op(allreduce_options), _seconds(allreduce_options)
        self.comm.allreduce(_one(tensor), op, timeout=seconds)

    def barrier(self, barrier_options: Any = BARRIER) -> None:
        self.comm.barrier(timeout=_seconds(barrier_options))

    def reduce(self, tensor: Any, reduce_options: Any = REDUCE) -> None:
        op, seconds = _op(reduce_options), _seconds(reduce_options)
        self.comm.reduce(_one(tensor), op, reduce_options.root_rank, timeout=seconds)

    def allgather(
        self, tensor_list: Any, tensor: Any, allgather_options: Any = ALLGATHER
    ) -> None:
        found = self.comm.allgather(_one(tensor), timeout=_seconds(allgather_options))
        for output, each in zip(_list(tensor_list), found, strict=True):
            output[...] = each

    def broadcast(self, tensor: Any, broadcast_options: Any = BROADCAST) -> None:
        root, seconds = broadcast_options.root_rank, _seconds(broadcast_options)
        self.comm.broadcast(_one(tensor), root, timeout=seconds)

    def reducescatter(
        self, tensor: Any, tensor_list: Any, reducescatter_options: Any = REDUCESCATTER
    ) -> None:
        op, seconds = _op(reducescatter_options), _seconds(reducescatter_options)
        blocks = _stacked(_list(tensor_list))
        found = self.comm.reduce_scatter(blocks, op, timeout=seconds)
        _one(tensor)[...] = found[0]

    def send(self, tensor: Any, send_options: SendOptions) -> None:
        seconds = _seconds(send_options)
        self.comm.send(_one(tensor), send_options.dst_rank, timeout=seconds)

    def recv(self, tensor: Any, recv_options: RecvOptions) -> None:
        seconds = _seconds(recv_options)
        self.comm.recv(_one(tensor), recv_options.src_rank, timeout=seconds)


def _one(tensors: Any) -> Any:
    """The tensor that Ray passes in a list; several are those of several GPUs."""
    if not isinstance(tensors, Sequence):
        return tensors
    if len(tensors) != 1:
        raise ValueError(
            f"collalgo: got {len(tensors)} tensors, where an actor passes one; let "
            "each actor make its call"
        )
    return tensors[0]


def _list(tensors: Any) -> list[Any]:
    """The list of tensors, which Ray passes in a list."""
    nested = len(tensors) == 1 and isinstance(tensors[0], list | tuple)
    return list(tensors[0] if nested else tensors)


def _stacked(tensors: list[Any]) -> Any:
    """One array of the blocks of all ranks."""
    if type(tensors[0]).__module__.partition(".")[0] == "torch":
        import torch

        return torch.stack(tensors)
    import numpy as np

    return np.stack(tensors)


def _op(options: Any) -> Any:
    """The op of a call."""
    name = options.reduceOp.name.lower()
    return OPS.get(name, name)


def _seconds(options: Any) -> float | None:
    """The timeout, if it is set: Ray has milliseconds, and a duration for none."""
    given = getattr(options, "timeout_ms", None) or 0
    if isinstance(given, timedelta):
        given = given / timedelta(milliseconds=1)
    return float(given) / 1000 if given > 0 else None
