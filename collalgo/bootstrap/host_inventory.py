"""The machines of a job, from the description that each of its processes makes."""

import json
from collections.abc import Sequence
from functools import cached_property, lru_cache
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
    """The machines of a world, and the places of its ranks.

    Attributes
    ----------
    topology : Topology
        The machines.
    devices : tuple of str
        The device of each rank.
    hosts : tuple of int
        The number of the host of each rank.
    kernels : tuple of str
        The boot id of the kernel of each rank, "" if not known.
    cores : tuple of frozenset of int
        The cores that each rank may use, by their numbers in the kernel.
    """

    topology: Topology
    devices: tuple[str, ...]
    hosts: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()
    cores: tuple[frozenset[int], ...] = ()

    @classmethod
    def seen(
        cls,
        topology: Topology,
        devices: Sequence[str],
        views: Sequence[dict[str, Any]],
        hosts: Sequence[int],
    ) -> "PlacedTopology":
        """Machines and devices, with the kernels and cores that the ranks see."""
        kernels = (str(view["identity"]).partition(" ")[0] for view in views)
        cores = (frozenset(view["cores"]) for view in views)
        return cls(topology, tuple(devices), tuple(hosts), tuple(kernels), tuple(cores))

    def of(self, members: Sequence[int]) -> "PlacedTopology":
        """The same machines, and the places of some of the ranks."""
        return self._replace(
            devices=tuple(self.devices[rank] for rank in members),
            hosts=tuple(self.hosts[rank] for rank in members if self.hosts),
            kernels=tuple(self.kernels[rank] for rank in members if self.kernels),
            cores=tuple(self.cores[rank] for rank in members if self.cores),
        )

    @property
    def shared_cores(self) -> int:
        """The number of cores that the ranks of several hosts share, or 0.

        Containers of one machine with networks of their own count as hosts. It is 0,
        too, where the ranks have a core each.
        """
        one_kernel = len({*self.kernels}) == 1 and self.kernels[0]
        if not one_kernel or len({*self.hosts}) < 2:
            return 0
        cores = len(frozenset().union(*self.cores))
        return cores if cores < len(self.devices) else 0


def detected(
    views: Sequence[dict[str, Any]], hosts: Sequence[int], copy: float
) -> PlacedTopology:
    """The machines that the processes of a job have found, each process on a core.

    Parameters
    ----------
    views
        The machine as each process sees it.
    hosts
        The number of the host of each process: those of the job, whatever their names.
    copy
        The GB/s at which a core copies.
    """
    parts = [
        {**view, "identity": str(host)} for host, view in zip(hosts, views, strict=True)
    ]
    merged = ranks.merge(parts)
    return PlacedTopology.seen(merged, ranks.add_rank_cores(merged, copy), views, hosts)


def placed_on(
    topology: Topology, views: Sequence[dict[str, Any]], hosts: Sequence[int]
) -> PlacedTopology:
    """A topology that the user has described, with each process on a core of its host.

    Raises
    ------
    TopologyError
        If a host has fewer cores than processes.
    """
    names = _names(topology, views, hosts)
    cores = {
        host: [core.id for core in topology.devices(Kind.CORE, host=name)]
        for host, name in names.items()
    }
    devices = []
    for rank, host in enumerate(hosts):
        local_rank = hosts[:rank].count(host)
        found = cores.get(host, [])
        if len(found) <= local_rank:
            raise TopologyError(
                f"host {names.get(host, host)} has {len(found)} cores but "
                f"{hosts.count(host)} ranks; describe a core for each rank, "
                "as Topology.detect() does"
            )
        devices.append(found[local_rank])
    return PlacedTopology.seen(topology, devices, views, hosts)


def _names(
    topology: Topology, views: Sequence[dict[str, Any]], hosts: Sequence[int]
) -> dict[int, str]:
    """The name of each host in a topology; by their order, if they differ."""
    names = {
        host: str(view["identity"].split(" ", 2)[2])
        for host, view in zip(hosts, views, strict=True)
    }
    if set(names.values()) <= set(topology.hosts):
        return names
    return dict(zip(names, topology.hosts, strict=False))


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
        self._hosts = tuple(hosts)

    def publish(self) -> None:
        """Send the description by this process to the other processes."""
        self._exchange.contribute(json.dumps(ranks.local_view()))
        if self._rank == 0:
            given = described()
            common = json.dumps([given, 1e-9 / host_profile().copy])
            self._exchange.publish(common)

    def placed(self, members: Sequence[int]) -> PlacedTopology:
        """The machines of some of the processes, which are the ranks of a world."""
        return self._whole.of(members)

    @cached_property
    def _whole(self) -> PlacedTopology:
        common, views = self._exchange.published(), tuple(self._exchange.collect())
        try:
            return _merged(common, views, self._hosts, self._engine)
        except TopologyError as error:
            if json.loads(common)[0] is None:  # it is not described
                raise
            raise BootstrapError(f"{TOPOLOGY.name}: {error}", rank=self._rank) from None


@lru_cache(maxsize=8)
def _merged(
    common: str, views: tuple[str, ...], hosts: tuple[int, ...], engine: str
) -> PlacedTopology:
    """The machines from the texts of all processes.

    The epochs of an elastic job mostly have the same texts, and so their prices.

    Raises
    ------
    TopologyError
        If the machines of the processes, or a description, cannot be merged.
    """
    given, copy = json.loads(common)
    parts = [json.loads(view) for view in views]
    if given is None:
        found = detected(parts, hosts, copy)
    else:
        found = placed_on(document.build(given), parts, hosts)
    found.topology.name += f" over {engine}"
    return found
