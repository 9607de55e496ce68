"""The hops that data of a flow may take, with the links that each loads."""

from typing import NamedTuple

import numpy as np

from collalgo.cost.cuts import GRAIN, Network
from collalgo.cost.routing import Routing
from collalgo.schedule.transfers import Ints, Reals


class Arcs(NamedTuple):
    """The hops between numbered devices; the ranks come first, in their order.

    Attributes
    ----------
    source, target : ndarray
        The devices at the ends of each hop.
    arc, link, part : ndarray
        The parts of a message on links: an entry for each hop and link.
    capacity : list of int
        The bytes per second of each link.
    devices : int
        The number of devices.
    """

    source: Ints
    target: Ints
    arc: Ints
    link: Ints
    part: Reals
    capacity: list[int]
    devices: int

    @classmethod
    def of_links(cls, network: Network) -> "Arcs":
        """A hop over each link, whatever the routes of messages."""
        names = [*dict.fromkeys([*network.ranks, *network.capacities])]
        number = {name: i for i, name in enumerate(names)}
        rows = [
            (number[a], number[b], -(-capacity * 10**9 // GRAIN))
            for a, near in network.capacities.items()
            for b, capacity in near.items()
            if capacity
        ]
        source, target, capacity = (list(each) for each in zip(*rows, strict=True))
        each = np.arange(len(capacity))
        ends = np.array(source), np.array(target)
        return cls(*ends, each, each, np.ones(len(each)), capacity, len(names))

    @classmethod
    def of_routes(cls, routes: Routing, size: int) -> "Arcs":
        """A hop between any two of some ranks, over the links of their route."""
        source, target = np.nonzero(~np.eye(size, dtype=bool))
        _, loads = routes.link_loads(source, target)
        limited = np.isfinite(routes.speed[loads.link])
        found, link = np.unique(loads.link[limited], return_inverse=True)
        capacity = np.ceil(routes.speed[found]).astype(np.int64).tolist()
        arc, part = loads.message[limited], loads.part[limited]
        return cls(source, target, arc, link, part, capacity, size)
