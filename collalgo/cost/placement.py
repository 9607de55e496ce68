"""The placement of ranks: a machine, and the device of each rank."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b

from collalgo.algorithms.radix import square
from collalgo.cost.cluster_routing import ClusterRoutes
from collalgo.cost.folding import fold
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.machine import with_assumed_speeds
from collalgo.cost.messages import Messages, all_messages
from collalgo.cost.rounds import Line, Rounds, lines, rounds
from collalgo.cost.routing import Routes, Routing
from collalgo.cost.symmetry import Folded
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.topology.model import Topology
from collalgo.topology.places import host_after_host, ranks_of


class Placement:
    """A machine with ranks on its devices.

    Parameters
    ----------
    machine
        A topology, or a cluster of uniform hosts.
    devices
        The device of each rank; for a cluster those of the first host. By default all
        devices of :func:`~collalgo.topology.places.ranks_of`.
    link_model
        The costs of a message.

    Raises
    ------
    TopologyError
        If a device does not exist, or would have two ranks.
    """

    def __init__(
        self,
        machine: Topology | UniformCluster,
        devices: Sequence[str] = (),
        link_model: LinkModel = DEFAULTS,
    ):
        machine = self.machine = with_assumed_speeds(machine, link_model)
        self.link_model = link_model
        self.cluster: UniformCluster | None
        self._host_devices: Sequence[str]
        if isinstance(machine, UniformCluster):
            self.devices = list(devices) or machine.host_devices
            self.cluster, self._host_devices = machine, self.devices
            self.size = machine.size
        else:
            self.devices = list(devices) or ranks_of(machine)
            _check_devices(machine, self.devices)
            self.cluster, self._host_devices = _as_cluster(machine, self.devices)
            self.size = len(self.devices)
        if len(set(self.devices)) < len(self.devices):
            raise TopologyError("every rank needs a device of its own")

    def reordered(self, devices: Sequence[str]) -> "Placement":
        """The same machine with its ranks in another order, and the known routes.

        For a cluster the order is that of the ranks of each host.
        """
        other = Placement(self.cluster or self.machine, devices, self.link_model)
        if isinstance(self.routes, ClusterRoutes if other.cluster else Routes):
            other.routes = self.routes.reordered(devices)
        return other

    @cached_property
    def digest(self) -> str:
        """The identity of all inputs of prices, except the schedules."""
        machine, hosts = self.machine, 0
        if isinstance(machine, UniformCluster):
            hosts = machine.hosts
            machine = machine.pair
        parts = machine.devices(), machine.links, hosts
        found = parts, self.devices, self.link_model
        return blake2b(repr(found).encode(), digest_size=16).hexdigest()

    @cached_property
    def hosts(self) -> list[int]:
        """The number of ranks on each host, in the order of the ranks."""
        if self.cluster is not None:
            return [len(self._host_devices)] * self.cluster.hosts
        assert isinstance(self.machine, Topology)
        devices = map(self.machine.device, self.devices)
        return list(Counter(device.host or device.id for device in devices).values())

    @cached_property
    def routes(self) -> Routing:
        """The routes between all ranks."""
        if self.cluster is not None:
            return ClusterRoutes(self.cluster, self._host_devices, self.link_model)
        assert isinstance(self.machine, Topology)
        return Routes(self.machine, self.devices, self.link_model)

    def messages(self, schedule: ScheduleFunction, root: int = 0) -> Messages:
        """The messages of all ranks."""
        return all_messages(schedule, self.size, root)

    def fold(
        self, schedule: ScheduleFunction, dims: Sequence[int] = (), root: int = 0
    ) -> Folded:
        """Reduce a schedule to the messages of as few representative ranks as possible.

        Parameters
        ----------
        schedule
            A function of a group.
        dims
            The grid of the schedule; by default, as for algorithms, the grid nearest
            to a square or a cube.
        root
            The rank of the root of a rooted collective.
        """
        likely = [tuple(dims)] if dims else [square(self.size), square(self.size, 3)]
        return fold(schedule, self.size, (*likely, self.grid), root)

    @property
    def grid(self) -> tuple[int, int]:
        """The numbers of ranks per host and of hosts; one host if not a cluster."""
        return len(self._host_devices), self.size // len(self._host_devices)

    def rounds(self, folded: Folded, segments: int = 1) -> Rounds:
        """Price a schedule in rounds.

        Parameters
        ----------
        folded
            The schedule, as returned by :meth:`fold`.
        segments
            The number of pipelined segments, each one step after the previous one.
        """
        routes, ranks = self.routes, self.size
        if isinstance(routes, ClusterRoutes) and not self.link_model.shared_cores:
            ranks = folded.symmetry.period(len(self._host_devices))
            routes = routes.folded(ranks)

        def unfold(messages: Messages) -> Messages:
            return folded._replace(messages=messages).of(range(ranks))

        return rounds(folded.messages, routes, segments, unfold)

    def least(
        self, partial_traces: Sequence[Messages], segments: Sequence[int]
    ) -> list[Line]:
        """Lower bounds of the prices in rounds, from some messages of each schedule.

        Parameters
        ----------
        partial_traces
            Some messages of each schedule.
        segments
            The number of segments of each schedule, as in :meth:`rounds`.
        """
        found: dict[int, Line] = {}
        for number in set(segments):
            which = [i for i, parts in enumerate(segments) if parts == number]
            some = [partial_traces[i] for i in which]
            found |= zip(which, lines(some, self.routes, number), strict=True)
        return [found[i] for i in range(len(partial_traces))]


def _check_devices(machine: Topology, devices: Sequence[str]) -> None:
    """Refuse devices that the machine does not have, and a machine without any."""
    missing = [device for device in devices if device not in machine]
    if missing:
        raise TopologyError(f"{machine.name} has no device {missing[0]!r}")
    if not devices:
        raise TopologyError(
            f"{machine.name} has no GPUs, cores, CPUs, hosts or NICs to place ranks "
            "on; choose another machine"
        )


def _as_cluster(
    topology: Topology, devices: Sequence[str]
) -> tuple[UniformCluster | None, Sequence[str]]:
    """A topology as a cluster, and the devices of its first host in order of ranks.

    None if it is not a cluster, or the ranks do not fill all hosts in the same order.
    """
    cluster = UniformCluster.of(topology)
    if cluster is None or cluster.size != len(devices):
        return None, devices
    count = len(cluster.host_devices)
    number = {device: i for i, device in enumerate(host_after_host(topology))}
    order = [number.get(device, -1) for device in devices]
    first = order[:count]
    if sorted(first) != list(range(count)):
        return None, devices
    is_uniform = all(
        [i - host * count for i in order[host * count : (host + 1) * count]] == first
        for host in range(cluster.hosts)
    )
    return (cluster, devices[:count]) if is_uniform else (None, devices)
