"""The machines of a job, from the description that each of its processes makes."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base.environment import TOPOLOGY
from collalgo.bootstrap.exchange import StoreExchange
from collalgo.bootstrap.store.protocol import ExchangeStore
from collalgo.cost.host_profile import host_profile
from collalgo.errors import BootstrapError, TopologyError
from collalgo.topology import document, ranks
from collalgo.topology.model import Kind, Topology

#: Seconds that a process waits for the description of another.
WAIT_SECONDS = 60.0


def described() -> dict[str, Any] | None:
    """The machines as ``COLLALGO_TOPOLOGY`` describes them, or None.

    Raises
    ------
    VariableError
        If it names no file of a topology.
    """
    path: Path | None = TOPOLOGY.value()
    if path is None:
        return None
    try:
        return document.document(Topology.read(path))
    except (OSError, TopologyError) as error:
        raise TOPOLOGY.wrong(f"cannot be used: {error}") from None


class PlacedTopology(NamedTuple):
    """The machines of a world, and the device of each of its ranks."""

    topology: Topology
    devices: tuple[str, ...]


class HostInventory:
    """The machines of all processes of a job; all processes compute the same.

    Parameters
    ----------
    store
        The store of the job.
    rank
        The rank of this process.
    hosts
        The number of the host of each process.
    engine
        The engine that carries messages between the hosts.
    """

    def __init__(
        self, store: ExchangeStore, rank: int, hosts: Sequence[int], engine: str
    ):
        self._engine = engine
        self._exchange = StoreExchange(
            store, rank, len(hosts), WAIT_SECONDS, "machines/"
        )
        self._rank = rank
        self._hosts = hosts

    def publish(self) -> None:
        """Send the description by this process to the other processes."""
        self._exchange.contribute(json.dumps(ranks.local_view()))
        if self._rank == 0:
            given = described()
            common = json.dumps([given, 1e-9 / host_profile().copy])
            self._exchange.publish(common)

    def placed(self, members: Sequence[int]) -> PlacedTopology:
        """The machines of some of the processes, which are the ranks of a world."""
        topology, devices = self._whole
        return PlacedTopology(topology, tuple(devices[rank] for rank in members))

    @cached_property
    def _whole(self) -> tuple[Topology, list[str]]:
        topology, devices = self._received()
        topology.name += f" over {self._engine}"
        return topology, devices

    def _received(self) -> tuple[Topology, list[str]]:
        given, copies = json.loads(self._exchange.published())
        parts = [json.loads(part) for part in self._exchange.collect()]
        if given is None:  # the hosts are those of the job, whatever their names
            for host, part in zip(self._hosts, parts, strict=True):
                part["identity"] = str(host)
            merged = ranks.merge(parts)
            return merged, ranks.add_rank_cores(merged, copies)
        topology = document.build(given)
        return topology, self._placed(topology, parts)

    def _placed(self, topology: Topology, parts: Sequence[dict[str, Any]]) -> list[str]:
        """The core of each rank in a topology that the user has described."""
        names = self._names(topology, parts)
        cores = {
            host: [core.id for core in topology.devices(Kind.CORE, host=name)]
            for host, name in names.items()
        }
        devices = []
        for rank, host in enumerate(self._hosts):
            local_rank = self._hosts[:rank].count(host)
            found = cores.get(host, [])
            if len(found) <= local_rank:
                raise BootstrapError(
                    f"{TOPOLOGY.name}: host {names.get(host, host)} has {len(found)} "
                    f"cores but {self._hosts.count(host)} ranks; describe a core for "
                    "each rank",
                    rank=self._rank,
                )
            devices.append(found[local_rank])
        return devices

    def _names(
        self, topology: Topology, parts: Sequence[dict[str, Any]]
    ) -> dict[int, str]:
        """The name of each host in a topology; by their order, if they differ."""
        names = {
            host: str(part["identity"].split(" ", 2)[2])
            for host, part in zip(self._hosts, parts, strict=True)
        }
        known = topology.hosts
        if set(names.values()) <= set(known):
            return names
        return dict(zip(names, known, strict=False))
