"""The links that messages between each two ranks take, as columns of numbers."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routes
from collalgo.schedule.transfers import Ints, Reals
from collalgo.topology.model import Topology

#: The digits of the part of a message on a link.
DIGITS = 12


class PairLinks:
    """The directed links of all pairs of ranks, ``source * size + target``.

    Trees have only edges between ranks that reach each other past all others: a rank
    between two of them would pass the data on, and may as well keep it.

    Attributes
    ----------
    size : int
        The number of ranks.
    routes : Routes
        The routes between the ranks, which number the directed links.
    first : ndarray
        The index of the first link of each pair, and the number of all at its end.
    links, parts : ndarray
        The directed links, and the part of a message on each.
    usable : ndarray of bool
        Whether a pair may be an edge of a tree.
    """

    def __init__(self, routes: Routes, reverse: bool = False):
        self.size, self.routes, self._reverse = len(routes.devices), routes, reverse
        pair, link, part = self._loads()
        self.first: Ints = np.searchsorted(pair, np.arange(self.size**2 + 1))
        self.links, self.parts = link, part
        source, target = np.divmod(np.arange(self.size**2), self.size)
        self.usable = source != target
        self.usable[pair[self._is_between(pair, link)]] = False

    @classmethod
    def of(cls, placement: Placement) -> "PairLinks":
        """The links between the ranks of a placement on a topology."""
        assert isinstance(placement.machine, Topology)
        return cls(Routes(placement.machine, placement.devices, placement.link_model))

    @cached_property
    def reversed(self) -> "PairLinks":
        """The links from each target to each source, for trees towards their roots."""
        return PairLinks(self.routes, not self._reverse)

    @cached_property
    def on_one_host(self) -> Ints:
        """1 for each pair of ranks of one host, and 0 for others."""
        device = self.routes.topology.device
        hosts = np.array([device(one).host or one for one in self.routes.devices])
        alike: Ints = (hosts[:, None] == hosts).astype(np.int64)
        return alike.ravel()

    @property
    def bytes_per_second(self) -> Reals:
        """The speed of each directed link."""
        return self.routes.speed

    def _loads(self) -> tuple[Ints, Ints, Reals]:
        """The pair, link and part of each load on a link of limited speed.

        They are sorted and rounded, so that every rank adds the same numbers in the
        same order, whatever the order of its sets.
        """
        pairs = np.arange(self.size**2)
        pairs = pairs[pairs // self.size != pairs % self.size]
        ends = pairs // self.size, pairs % self.size
        _, loads = self.routes.link_loads(*(ends[::-1] if self._reverse else ends))
        limited = np.flatnonzero(np.isfinite(self.routes.speed[loads.link]))
        pair, link = pairs[loads.message[limited]], loads.link[limited]
        order = np.lexsort((link, pair))
        return pair[order], link[order], loads.part[limited][order].round(DIGITS)

    def _is_between(self, pair: Ints, link: Ints) -> NDArray[np.bool_]:
        """Whether an end of a link is a third rank."""
        rank = {device: i for i, device in enumerate(self.routes.devices)}
        ends = np.array(
            [
                [rank.get(end, -1) for end in link.ends]
                for link in self.routes.topology.links
            ]
        )[link // 2]
        source, target = pair[:, None] // self.size, pair[:, None] % self.size
        found = (ends >= 0) & (ends != source) & (ends != target)
        return np.asarray(found.any(axis=1))
