"""Where ranks are to be: a machine, and which of its devices each of them has."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from collalgo.algorithms.radix import square
from collalgo.cost.cluster_routing import ClusterRoutes
from collalgo.cost.folding import fold
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.cost.messages import Messages, all_messages
from collalgo.cost.rounds import Line, Rounds, lines, rounds
from collalgo.cost.routing import Map, Routes, ranks_of
from collalgo.cost.symmetry import Folded
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.topology.model import Topology


class Placement:
    """A machine with a rank on each of its devices.

    Parameters
    ----------
    machine
        A topology, or a cluster of hosts that are alike.
    places
        The device of each rank; of a cluster those of the first host. By default all
        GPUs, else all cores, else all hosts, in their order.
    figures
        What messages cost.

    Raises
    ------
    TopologyError
        If a device does not exist, or would have two ranks.
    """

    def __init__(
        self,
        machine: Topology | UniformCluster,
        places: Sequence[str] = (),
        figures: LinkModel = DEFAULTS,
    ):
        self.machine = machine
        self.figures = figures
        if isinstance(machine, UniformCluster):
            self.cluster: UniformCluster | None = machine
            self.places = list(places) or machine.each
            self._each: Sequence[str] = self.places
            self.size = machine.size
        else:
            self.places = list(places) or ranks_of(machine)
            self.size = len(self.places)
            missing = [place for place in self.places if place not in machine.graph]
            if missing and not places:
                raise TopologyError(
                    f"{machine.name} has no GPUs, cores or hosts that ranks could be "
                    "on; choose a machine that has, or name the device of each rank"
                )
            if missing:
                raise TopologyError(f"{machine.name} has no device {missing[0]!r}")
            self.cluster, self._each = _like_hosts(machine, self.places)
        if len(set(self.places)) < len(self.places):
            raise TopologyError("every rank needs a device of its own")

    def reordered(self, places: Sequence[str]) -> "Placement":
        """The same machine with its ranks in another order, and the roads it knows.

        Of a cluster the order is that of the ranks of each host.
        """
        other = Placement(self.cluster or self.machine, places, self.figures)
        if isinstance(self.roads, ClusterRoutes if other.cluster else Routes):
            other.roads = self.roads.reordered(places)
        return other

    @cached_property
    def hosts(self) -> list[int]:
        """How many ranks each host has, in the order of the ranks."""
        if self.cluster is not None:
            return [len(self._each)] * self.cluster.hosts
        assert isinstance(self.machine, Topology)
        devices = map(self.machine.device, self.places)
        return list(Counter(device.host or device.id for device in devices).values())

    @cached_property
    def roads(self) -> Map:
        """The roads of all ranks."""
        if self.cluster is not None:
            return ClusterRoutes(self.cluster, self._each, self.figures)
        assert isinstance(self.machine, Topology)
        return Routes(self.machine, self.places, self.figures)

    def messages(self, schedule: ScheduleFunction, root: int = 0) -> Messages:
        """The messages of all ranks."""
        return all_messages(schedule, self.size, root)

    def fold(
        self, schedule: ScheduleFunction, dims: Sequence[int] = (), root: int = 0
    ) -> Folded:
        """A schedule by what as few ranks as possible do.

        Parameters
        ----------
        schedule
            A function of a group.
        dims
            The grid that the schedule is made for; by default, as that of algorithms,
            one that is nearly a square or a cube.
        root
            The root, where there is one.
        """
        likely = [tuple(dims)] if dims else [square(self.size), square(self.size, 3)]
        return fold(schedule, self.size, (*likely, self.grid), root)

    @property
    def grid(self) -> tuple[int, int]:
        """The ranks of a host and the hosts, of a cluster; else as if on one host."""
        return len(self._each), self.size // len(self._each)

    def rounds(self, folded: Folded, segments: int = 1) -> Rounds:
        """Price a schedule in rounds.

        Parameters
        ----------
        folded
            The schedule, by :meth:`fold`.
        segments
            In so many parts the schedule runs, each a step after the one before.
        """
        roads, ranks = self.roads, self.size
        if isinstance(roads, ClusterRoutes):
            ranks = folded.symmetry.period(len(self._each))
            roads = roads.folded(ranks)

        def everyone(messages: Messages) -> Messages:
            return folded._replace(messages=messages).of(range(ranks))

        return rounds(folded.messages, roads, segments, everyone)

    def least(
        self, glimpses: Sequence[Messages], segments: Sequence[int]
    ) -> list[Line]:
        """What schedules cost in rounds at least, of each of which some messages are.

        Parameters
        ----------
        glimpses
            Some messages of each schedule.
        segments
            In how many parts each runs, as in :meth:`rounds`.
        """
        found: dict[int, Line] = {}
        for number in set(segments):
            which = [i for i, parts in enumerate(segments) if parts == number]
            some = [glimpses[i] for i in which]
            found |= zip(which, lines(some, self.roads, number), strict=True)
        return [found[i] for i in range(len(glimpses))]


def _like_hosts(
    topology: Topology, places: Sequence[str]
) -> tuple[UniformCluster | None, Sequence[str]]:
    """The cluster that a topology is, and how ranks fill each of its hosts.

    None if it is none, or if the ranks do not fill host after host in the same way.
    """
    cluster = UniformCluster.of(topology)
    if cluster is None or cluster.size != len(places):
        return None, places
    plain, count = ranks_of(topology), len(cluster.each)
    number = {device: i for i, device in enumerate(plain)}
    order = [number.get(device, -1) for device in places]
    first = order[:count]
    if sorted(first) != list(range(count)):
        return None, places
    alike = all(
        [i - host * count for i in order[host * count : (host + 1) * count]] == first
        for host in range(cluster.hosts)
    )
    return (cluster, places[:count]) if alike else (None, places)
