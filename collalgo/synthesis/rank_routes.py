"""The routes between ranks on a topology, with the ranks at the ends of links."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.cluster_routing import ClusterRoutes
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routing
from collalgo.cost.uniform_cluster import never_blocks
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.model import Kind, Topology


class RankRoutes:
    """The routes between the ranks of a placement.

    Those of uniform hosts whose network never blocks have the links of the hosts only,
    the same for each host.

    Attributes
    ----------
    routing : Routing
        The routes.
    """

    def __init__(self, placement: Placement):
        assert isinstance(placement.machine, Topology)
        self.routing: Routing = placement.routes
        self._topology, self._devices = placement.machine, placement.devices

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self._devices)

    @property
    def speed(self) -> Reals:
        """The bytes per second of each directed link."""
        return self.routing.speed

    @property
    def assumed(self) -> NDArray[np.bool_]:
        """Whether the speed of each directed link is assumed."""
        found = np.zeros(len(self.speed), np.bool_)
        found[self.routing.assumed] = True
        return found

    @property
    def limits(self) -> NDArray[np.bool_]:
        """Whether each directed link may be the slowest of some messages.

        Switches of a network that never blocks carry what the cables of hosts carry.
        """
        found: NDArray[np.bool_] = np.isfinite(self.speed)
        if isinstance(self.routing, ClusterRoutes) or not never_blocks(self._topology):
            return found
        switches = {device.id for device in self._topology.devices(Kind.SWITCH)}
        inside = [switches.issuperset(link.ends) for link in self._topology.links]
        found &= ~np.repeat(inside, 2)
        return found

    @cached_property
    def hosts(self) -> Ints:
        """The number of the host of each rank."""
        names = [self._topology.device(one).host or one for one in self._devices]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def ends(self) -> Ints:
        """The ranks at the two ends of each directed link; -1 for other devices."""
        rank = {device: i for i, device in enumerate(self._devices)}
        tiles = 1
        if isinstance(self.routing, ClusterRoutes):
            tiles = self.size // len(self.routing.cluster.host_devices)
        each = len(self.speed) // tiles
        links = [self.routing.directed_link(number)[0] for number in range(each)]
        first = np.array([[rank.get(end, -1) for end in one.ends] for one in links])
        first = first.reshape(-1, 2)
        late = np.arange(tiles)[:, None, None] * (self.size // tiles)
        found: Ints = np.where(first >= 0, first + late, -1).reshape(-1, 2)
        return found
