"""What an algorithm would take on a topology, in the variants that make sense there."""

import inspect
from collections import Counter
from collections.abc import Iterator

from collalgo.algorithms import Algorithm
from collalgo.collective import COLLECTIVES
from collalgo.cost.roads import Roads, ranks_of
from collalgo.cost.simulation import flows_of, rounds
from collalgo.schedule import trace
from collalgo.topology.model import Topology
from collalgo.topology.orders import ring_order
from collalgo.transfers import TransferTable

#: The devices of the ranks, by the name of the order in which they stand.
Orders = dict[str, list[str]]


def orders_of(topology: Topology) -> Orders:
    """The orders that differ: that of the topology, and along the fastest rings."""
    plain, along = ranks_of(topology), ring_order(topology)
    return {"": plain} if along == plain else {"": plain, "ring": along}


def forecasts(
    row: Algorithm, nbytes: int, roads: Roads, orders: Orders
) -> Iterator[tuple[Algorithm, str, float]]:
    """Variants of an algorithm, each with the name of an order and its time by rounds.

    Where the number of a rank has a meaning, as for a root, only the order of the
    topology is tried.
    """
    collective = COLLECTIVES[row.collective]
    size = len(roads.places)
    numbered = collective.rooted or row.collective in ("scan", "exscan")
    for variant in variants(row, roads):
        table = TransferTable([trace(variant.schedule, r, size) for r in range(size)])
        flows = flows_of(table, nbytes * collective.buffers(size))
        for name, places in orders.items():
            if not (numbered and name):
                found = rounds(flows, roads.reordered(places), 0.0)
                yield variant, name, found.seconds


def variants(row: Algorithm, roads: Roads) -> Iterator[Algorithm]:
    """An algorithm with the parameters that the hosts of a topology suggest."""
    devices = map(roads.topology.device, roads.places)
    hosts = list(Counter(device.host or device.id for device in devices).values())
    known = inspect.signature(row.function).parameters
    several = row.levels and len(hosts) > 1 and max(hosts) > 1
    if several and "hosts" in known:
        yield row.having({"hosts": tuple(hosts)})
    elif several and "dims" in known and len(set(hosts)) == 1:
        yield row.having({"dims": (hosts[0], len(hosts))})
    else:
        yield row
