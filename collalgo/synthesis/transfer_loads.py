"""The loads of links by the transfers of a plan."""

from math import inf
from typing import NamedTuple

import numpy as np

from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.tree_transfers import Transfers


class TransferLoads(NamedTuple):
    """The loads of links by transfers, in units.

    Attributes
    ----------
    pairs : PairLinks
        The links between the ranks.
    pair : ndarray
        The pair of ranks of each transfer.
    counts, load : ndarray
        The transfers of each pair of ranks, and those over each link.
    """

    pairs: PairLinks
    pair: Ints
    counts: Reals
    load: Reals

    @classmethod
    def of(
        cls, pairs: PairLinks, transfers: Transfers, weights: Reals
    ) -> "TransferLoads":
        """The loads of transfers of some amounts of data."""
        pair = transfers.source * pairs.size + transfers.target
        counts: Reals = np.bincount(pair, weights, pairs.size**2).astype(float)
        each, links = counts[pairs.pair] * pairs.parts, len(pairs.bytes_per_second)
        load = np.bincount(pairs.links, each, links).astype(float)
        return cls(pairs, pair, counts, load)

    @property
    def busy(self) -> Reals:
        """The seconds of each link, for each byte of a unit."""
        seconds: Reals = self.load / self.pairs.bytes_per_second
        return seconds

    def fewest(self, part: float) -> float:
        """The least load of the links with at least a part of the longest time."""
        busy = self.busy
        return float(self.load[busy >= part * busy.max()].min())

    @property
    def least_latency(self) -> float:
        """The least seconds of a message over the busiest link."""
        pair = self.pairs.pair[self.pairs.links == self.busy.argmax()]
        found = self.pairs.latencies[pair[self.counts[pair] > 0]]
        return float(found.min(initial=inf))

    @property
    def fullness(self) -> Reals:
        """The time of the busiest link of each transfer, as a part of the longest."""
        busy, pairs = self.busy, self.pairs
        found = np.zeros(pairs.size**2)
        np.maximum.at(found, pairs.pair, busy[pairs.links])
        fullness: Reals = found[self.pair] / busy.max()
        return fullness
