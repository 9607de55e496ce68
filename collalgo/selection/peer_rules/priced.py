"""Tuning files from prices: which algorithm of a peer is the cheapest on a topology."""

from collections.abc import Iterator
from math import ceil

import numpy as np

from collalgo.algorithms.catalogue import Algorithm
from collalgo.errors import AlgorithmNotApplicable
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.peer_rules.algorithms import (
    PeerAlgorithm,
    Table,
    algorithms_of,
    ours,
)
from collalgo.selection.peer_rules.openmpi import SIZELESS
from collalgo.selection.prices import Choices, Priced, breaks

#: The sizes that count alike for collectives with one algorithm for all, in bytes.
TYPICAL = 8.0 * 4.0 ** np.arange(12)


def priced_table(peer: str, pricer: TopologyPricer) -> Table:
    """The cheapest algorithms of a peer for all ranks of a topology, by size.

    Each algorithm has the price of its equal in collalgo, in the order of the ranks;
    the rings and trees of NCCL that of the best variant. Algorithms without an equal
    are left out, and so are collectives with a single algorithm.
    """
    hosts = len(pricer.placement.hosts)
    table = {}
    for collective, algorithms in algorithms_of(peer).items():
        fitting = [one for one in algorithms if one.fits(pricer.size, hosts)]
        rows = _rows(collective, fitting, pricer)
        if len(set(rows.values())) > 1:
            alike = peer == "openmpi" and collective in SIZELESS
            sizes = _overall(rows, pricer) if alike else _by_size(peer, rows, pricer)
            table[collective] = {pricer.size: sizes}
    return table


def _rows(
    collective: str, algorithms: list[PeerAlgorithm], pricer: TopologyPricer
) -> dict[Algorithm, str]:
    """The rows of collalgo that can run, each with the name of the peer."""
    found: dict[Algorithm, str] = {}
    for one in algorithms:
        for name in one.ours:
            try:
                found.setdefault(pricer.find(ours(collective), name), one.name)
            except AlgorithmNotApplicable:
                continue
    return found


def _by_size(
    peer: str, rows: dict[Algorithm, str], pricer: TopologyPricer
) -> dict[int, str]:
    """The names from least sizes in bytes on."""
    names = {row.base_name: name for row, name in rows.items()}
    if peer == "nccl":
        choices = pricer.choices_among(list(rows))
    else:
        choices = Choices(breaks(list(_priced(rows, pricer))))
    found: dict[int, str] = {}
    for one in choices.breaks:
        name = names[one.candidate.row.base_name]
        if not found or name != next(reversed(found.values())):
            found[ceil(one.nbytes)] = name
    return found


def _overall(rows: dict[Algorithm, str], pricer: TopologyPricer) -> dict[int, str]:
    """The name of the least geometric mean of prices, for all sizes."""

    def mean(one: Priced) -> float:
        return float(np.log(one.price.seconds(TYPICAL)).mean())

    return {0: rows[min(_priced(rows, pricer), key=mean).row]}


def _priced(rows: dict[Algorithm, str], pricer: TopologyPricer) -> Iterator[Priced]:
    return (pricer.price_one(row) for row in rows)
