"""The collectives of Ray on the engine: ``register()``, then the backend ``COLLALGO``.

A group has the calls of ``ray.util.collective`` on arrays in host memory. Its actors
connect over the key-value store of Ray; those on one host then use shared memory.
"""

import secrets
from collections.abc import MutableSet, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import ray
import ray.experimental.internal_kv as ray_store
from ray.util.collective.backend_registry import (
    _global_registry,
    register_collective_backend,
)
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
    """Register the backend, once; every actor calls it, and so does the driver."""
    if not _global_registry.is_registered(BACKEND):
        register_collective_backend(BACKEND, RayGroup)


class RayStore:
    """The key-value store of Ray as an :class:`~.store.protocol.ExchangeStore`.

    All jobs of a cluster share it, and it may have keys of earlier groups of this name,
    or of ranks that gave up. Rank 0 therefore gives each group keys of its own, by a
    random number that it sends to the random name of each rank.

    Parameters
    ----------
    group
        The name of the group.
    rank, size
        The rank of this process, and their number.
    timeout
        Seconds to wait for the other ranks.
    """

    def __init__(self, group: str, rank: int, size: int, timeout: float):
        job = ray.get_runtime_context().get_job_id()
        self._prefix = f"collalgo/{job}/{group}/"
        self._written: list[str] = []
        try:
            keys = (
                self._invite(size, timeout) if rank == 0 else self._join(rank, timeout)
            )
        except BaseException:
            self.remove()
            raise
        self._prefix += f"{keys}/"

    def set(self, key: str, value: bytes) -> None:
        """Set a key; only the ranks that say their name set one again."""
        ray_store._internal_kv_put(self._prefix + key, value)
        self._written.append(self._prefix + key)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        late = BootstrapError(
            f"Ray's store has no key {key} after {timeout:g} s; check that all actors "
            "create the group"
        )
        return awaited(partial(self._read, key), timeout, POLL_SECONDS, late)

    def remove(self) -> None:
        """Remove the keys that this process has set."""
        for key in self._written:
            ray_store._internal_kv_del(key)
        self._written.clear()

    def _read(self, key: str) -> bytes | None:
        found: bytes | None = ray_store._internal_kv_get(self._prefix + key)
        return found

    def _join(self, rank: int, timeout: float) -> str:
        """Say the name of this rank: the number that rank 0 sends."""
        name = secrets.token_hex(8)
        self.set(f"joining/{rank}", name.encode())
        keys = self.get(f"invited/{name}", timeout).decode()
        self.set(f"{keys}/joined/{rank}", b"1")
        return keys

    def _invite(self, size: int, timeout: float) -> str:
        """Send a number to each name that a rank says, until all have joined."""
        keys = secrets.token_hex(8)
        look = partial(self._answer, keys, set(range(1, size)), set())
        late = BootstrapError(
            f"not all {size} actors have created the group after {timeout:g} s", rank=0
        )
        return awaited(look, timeout, POLL_SECONDS, late).decode()

    def _answer(
        self, keys: str, missing: MutableSet[int], invited: MutableSet[bytes]
    ) -> bytes | None:
        """Invite new names, also of earlier groups; the number once all have joined."""
        for rank in [*missing]:
            name = self._read(f"joining/{rank}")
            if name and name not in invited:
                self.set(f"invited/{name.decode()}", keys.encode())
                invited.add(name)
            if self._read(f"{keys}/joined/{rank}"):
                missing.remove(rank)
        return None if missing else keys.encode()


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
        position = rank, world_size
        self._store = RayStore(group_name, *position, JOIN_TIMEOUT)
        try:
            arguments = JoinArguments(self._store, *position, timeout=JOIN_TIMEOUT)
            self.comm = Communicator(connect_over(self._store, arguments))
        except BaseException:
            self._store.remove()
            raise

    @classmethod
    def backend(cls) -> str:
        return BACKEND

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        try:
            self.comm.close()
        finally:
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
