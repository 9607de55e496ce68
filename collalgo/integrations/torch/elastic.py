"""The rendezvous of elastic jobs as a handler of torchrun.

``torchrun --rdzv-backend=collalgo --rdzv-endpoint=HOST:PORT --nnodes 1:4 script.py``

The endpoint may be any URL of :func:`collalgo.elastic.rendezvous` that has a store.
Values of the store are never unpickled, and no clocks of two nodes are compared.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from torch.distributed import DistError, PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from collalgo.bootstrap.interfaces import address_towards, addresses, is_loopback
from collalgo.bootstrap.store.etcd_members import split_url
from collalgo.bootstrap.store.protocol import KeyValueStore, StoreError
from collalgo.bootstrap.store.repeated import repeated
from collalgo.elastic.backends import rendezvous
from collalgo.elastic.interface import Membership
from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError, RendezvousClosed, RendezvousError

T = TypeVar("T")

#: The name of the backend.
NAME = "collalgo"

#: Seconds that agents have to connect with the store of an epoch.
CONNECT_SECONDS = 60.0

#: Seconds of an attempt to connect with it, after which lost members are searched for.
ATTEMPT_SECONDS = 5.0


def create(parameters: RendezvousParameters) -> RendezvousHandler:
    """The handler for the options of a torchrun.

    ``--rdzv-conf`` takes ``join_timeout``, ``last_call_timeout`` and ``silence``, in
    seconds; see :class:`collalgo.elastic.Settings`.
    """

    def seconds(name: str, default: float) -> float:
        return float(parameters.get(name, default))

    settings = Settings(
        parameters.min_nodes,
        parameters.max_nodes,
        last_call=seconds("last_call_timeout", 1.0),
        silence=seconds("silence", 5.0),
        join_timeout=seconds("join_timeout", 600.0),
    )
    found = _rendezvous(parameters, settings)
    try:
        address = parameters.local_addr or _own_address(parameters.endpoint)
    except (BootstrapError, OSError) as error:
        found.shutdown()
        raise RendezvousConnectionError(f"{parameters.endpoint}: {error}") from error
    return Handler(found, parameters.run_id, address)


def _rendezvous(
    parameters: RendezvousParameters, settings: Settings
) -> StoreRendezvous:
    """The rendezvous of the agents, over a store."""
    try:
        found = rendezvous(parameters.endpoint, parameters.run_id, settings)
    except BootstrapError as error:
        raise RendezvousConnectionError(str(error)) from error
    if not isinstance(found, StoreRendezvous):
        raise RendezvousConnectionError(
            f"{parameters.endpoint} names no store, which torchrun needs"
        )
    return found


def _own_address(endpoint: str) -> str:
    """The address of this host at which the other nodes reach it.

    It is that on the route to the store, or else that of an interface: if the store is
    a folder, or on this host. The loopback address is only for nodes that all use it.
    """
    url = split_url(endpoint if "://" in endpoint else f"collalgo://{endpoint}")
    host = url.netloc.partition(",")[0].rpartition(":")[0].strip("[]")
    found = address_towards(host) if host else ""
    if (found and not is_loopback(found)) or is_loopback(host):
        return found
    return addresses(loopback=True)[0]


class Handler(RendezvousHandler):
    """A rendezvous for torchrun.

    Parameters
    ----------
    rendezvous
        The rendezvous of the agents.
    run_id
        The id of the job.
    address
        The address at which the other nodes reach this one.
    """

    def __init__(self, rendezvous: StoreRendezvous, run_id: str, address: str):
        self._rendezvous, self._run_id, self._address = rendezvous, run_id, address
        self._store: TCPStore | None = None

    def get_backend(self) -> str:
        return NAME

    @property
    def use_agent_store(self) -> bool:
        """The workers use the store that the agent of rank 0 holds for the epoch."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until this agent is a member of an epoch greater than its last."""
        while True:
            try:
                member = self._rendezvous.join()
                return self._info(member, self._where(member))
            except RendezvousClosed as error:
                raise RendezvousClosedError(str(error)) from error
            except RendezvousError as error:
                raise RendezvousTimeoutError(str(error)) from error
            except (BootstrapError, RendezvousConnectionError):
                if self._rendezvous.change() is None:
                    raise  # otherwise its first member has left: try again

    def _where(self, member: Membership) -> RendezvousStoreInfo:
        """The address of the store of an epoch: its first member makes it."""
        key = f"epoch/{member.epoch}/torch"
        if member.rank == 0:
            self._store = _tcp_store(self._address, 0, is_held=True)
            where = f"{self._address} {self._store.port}"
            fences = _fences(member)
            self._ask(lambda store: store.set(key, where.encode(), fences=fences))
        told = self._ask(lambda store: store.get(key, CONNECT_SECONDS)).decode()
        address, _, port = told.rpartition(" ")
        return RendezvousStoreInfo(address, int(port))

    def _ask(self, request: Callable[[KeyValueStore], T]) -> T:
        """Make a request to the store of the job, which may fail for a while."""
        found = self._rendezvous  # of which the store is another one after a loss
        name = f"the store at {found.where}"
        return repeated(
            lambda: request(found.store), CONNECT_SECONDS, name, self._check
        )

    def _check(self) -> None:
        """Raise an error if the present epoch has ended."""
        change = self._rendezvous.change()
        if change is not None and change.is_failure:
            raise BootstrapError("the epoch has lost a member")

    def _info(self, member: Membership, where: RendezvousStoreInfo) -> RendezvousInfo:
        """The information of an epoch for torchrun."""
        if member.rank:
            self._store = self._connect(member, where)
        store = PrefixStore(f"collalgo/{self._run_id}/{member.epoch}", self._store)
        return RendezvousInfo(store, member.rank, member.size, where)

    def _connect(self, member: Membership, where: RendezvousStoreInfo) -> TCPStore:
        """Connect with the store of an epoch, which may end meanwhile."""
        host, port = where.master_addr, where.master_port
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                return _tcp_store(host, port, is_held=False)
            except DistError as error:
                if self._rendezvous.change() is None and time.monotonic() < deadline:
                    continue
                raise RendezvousConnectionError(
                    f"node {member.members[member.rank]} did not reach the store of "
                    f"epoch {member.epoch} at {host}:{port}, which node "
                    f"{member.members[0]} holds, in {CONNECT_SECONDS:g} s; check the "
                    "network between them"
                ) from error

    def is_closed(self) -> bool:
        change = self._rendezvous.change()
        return change is not None and change.closed is not None

    def set_closed(self) -> None:
        self._rendezvous.close("torchrun has ended the job")

    def num_nodes_waiting(self) -> int:
        """The number of nodes for which the agents need another round.

        A member that has left, failed or asks counts, too: torchrun checks this number
        only.
        """
        change = self._rendezvous.change()
        if change is None or change.closed is not None:
            return 0
        return max(change.waiting, int(change.is_failure))

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        """End the job for waiting nodes, and leave."""
        with suppress(StoreError):  # it may have ended with its node
            self.set_closed()
        self._rendezvous.shutdown()
        self._store = None
        return True


def _fences(member: Membership) -> list[Any]:
    return [] if member.fence is None else [member.fence]


def _tcp_store(host: str, port: int, *, is_held: bool) -> TCPStore:
    """A store of torch, held by this process or by another."""
    store = TCPStore(
        host,
        port,
        is_master=is_held,
        wait_for_workers=False,
        timeout=timedelta(seconds=ATTEMPT_SECONDS),
        multi_tenant=True,
    )
    store.set_timeout(timedelta(seconds=CONNECT_SECONDS))  # of its calls
    return store
