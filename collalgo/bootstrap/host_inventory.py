"""What the processes of a job tell each other of their machines."""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from collalgo.bootstrap.store.client import Client
from collalgo.cost.host_profile import host_profile
from collalgo.errors import BootstrapError
from collalgo.topology import document as exchange, ranks
from collalgo.topology.model import Kind, Topology

#: Where a file may describe the machines instead.
VARIABLE = "COLLALGO_TOPOLOGY"

#: Seconds that a process waits for what another has seen.
PATIENCE = 60.0


class PlacedTopology(NamedTuple):
    """The machines of a world, and which of their devices each of its ranks has."""

    topology: Topology
    places: tuple[str, ...]


class HostInventory:
    """The machines of all processes of a job, which all see alike.

    Parameters
    ----------
    store
        Of the job.
    rank
        Of this process.
    hosts
        The number of the host of each.
    engine
        What carries messages between the hosts.
    """

    def __init__(self, store: Client, rank: int, hosts: Sequence[int], engine: str):
        self._engine = engine
        self._store = store
        self._rank = rank
        self._hosts = hosts

    def tell(self) -> None:
        """Tell the others what this process sees."""
        mine = json.dumps(ranks.local_view()).encode()
        self._store.set(f"machine/{self._rank}", mine)
        if self._rank == 0:
            path = os.environ.get(VARIABLE)
            given = exchange.document(Topology.read(path)) if path else None
            common = json.dumps([given, 1e-9 / host_profile().copy])
            self._store.set("topology", common.encode())

    def ground(self, members: Sequence[int]) -> PlacedTopology:
        """The machines of some of the processes, with these as its ranks."""
        topology, places = self._whole
        return PlacedTopology(topology, tuple(places[rank] for rank in members))

    @cached_property
    def _whole(self) -> tuple[Topology, list[str]]:
        topology, places = self._told()
        topology.name += f" over {self._engine}"
        return topology, places

    def _told(self) -> tuple[Topology, list[str]]:
        given, copies = json.loads(self._store.get("topology", PATIENCE))
        everyone = range(len(self._hosts))
        parts = [
            json.loads(self._store.get(f"machine/{rank}", PATIENCE))
            for rank in everyone
        ]
        if given is None:  # whatever they are called, the hosts are those of the job
            for host, part in zip(self._hosts, parts, strict=True):
                part["identity"] = str(host)
            merged = ranks.merge(parts)
            return merged, ranks.add_rank_cores(merged, copies)
        topology = exchange.build(given)
        return topology, self._placed(topology, parts)

    def _placed(self, topology: Topology, parts: Sequence[dict[str, Any]]) -> list[str]:
        """The cores of a description that the ranks have, host by host."""
        names = {
            host: part["identity"].split(" ", 2)[2]
            for host, part in zip(self._hosts, parts, strict=True)
        }
        known = topology.hosts
        if not set(names.values()) <= set(known):  # by other names, in their order
            names = dict(zip(names, known, strict=False))
        cores = {
            host: [core.id for core in topology.devices(Kind.CORE, host=name)]
            for host, name in names.items()
        }
        places = []
        for rank, host in enumerate(self._hosts):
            number = self._hosts[:rank].count(host)
            if len(cores.get(host, ())) <= number:
                raise BootstrapError(
                    f"{VARIABLE}: host {names.get(host, host)} has "
                    f"{len(cores.get(host, ()))} cores but {self._hosts.count(host)} "
                    "ranks; describe a core for each rank",
                    rank=self._rank,
                )
            places.append(cores[host][number])
        return places
