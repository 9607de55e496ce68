"""Trees over relays: shallow, and as even as the links allow where hosts are alike."""

import numpy as np
import pytest

from collalgo import Topology
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.synthesis.centres import depths
from collalgo.synthesis.paces import SLOW
from collalgo.synthesis.packing import pack, packing_of
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.relay_trees import busy_of, groups_around, over_relays
from collalgo.synthesis.ways import WAVES
from tests.support.host_networks import network

MACHINES = {
    "one host": lambda: Topology.load("dgx_a100"),
    "hosts": lambda: Topology.load("dgx_h100", hosts=2),
    "uneven": lambda: Topology.load("dgx1v", hosts=2).without(
        "host0/gpu1", "host1/gpu2", "host1/gpu6"
    ),
    **{
        f"network {size}": lambda size=size: network(size, extra=1.0, seed=size)
        for size in (2, 3, 5, 7, 8, 12, 16, 17, 33)
    },
}


@pytest.mark.parametrize("machine", MACHINES)
def test_all_ranks_are_at_most_five_messages_from_any_root(machine):
    pairs = Planner(Placement(MACHINES[machine]())).pairs
    for root in range(0, pairs.size, 3):
        groups = groups_around(pairs, root)
        assert groups[0][0] == root
        assert sorted(np.concatenate(groups).tolist()) == [*range(pairs.size)]
        found = [*over_relays(pairs, root)]
        assert found
        for trees in found:
            assert (trees.parents[:, root] == -1).all()
            assert (np.delete(trees.parents, root, axis=1) >= 0).all()
            depth = np.delete(depths(trees.parents), root, axis=1)
            assert depth.min(initial=1) >= 1
            assert depth.max(initial=0) <= 5


def test_the_busiest_link_of_trees_is_that_of_their_packing():
    pairs = Planner(Placement(network(7, extra=1.0, seed=2))).pairs
    packing = packing_of(pairs, [0] * 5)
    busy = packing.sweep(3, 0.3)
    assert busy_of(pairs, packing.parents) == pytest.approx(busy)
    assert busy_of(pairs, pack(pairs, [0] * 9).parents) == pytest.approx(
        pack(pairs, [0] * 9).busy
    )


@pytest.mark.parametrize("name", ["dgx_a100", "dgx_h100", "mi300x", "dgx1v", "p4d"])
@pytest.mark.parametrize("hosts", [2, 4])
def test_trees_over_relays_load_hosts_as_little_as_the_bound(name, hosts):
    """Some need several helpers of the root, which is at most as fast as its host."""
    topology = Topology.load(name, hosts=hosts)
    pairs = Planner(Placement(topology)).pairs
    bound = float(bound_of("broadcast", topology).per_byte) / 1e9
    found = [one.busy / len(one.parents) for one in over_relays(pairs, 0)]
    assert min(found) == pytest.approx(bound, rel=0.05)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_waves_over_relays_are_near_the_bound_on_two_servers(collective):
    topology = Topology.load("dgx_a100", hosts=2)
    peers = "several" if collective == "reduce" else "one"
    price = Planner(Placement(topology)).price(
        collective, Form(WAVES, 16, "gentle", peers)
    )
    assert price.seconds(1 << 30) <= 1.05 * bound_of(collective, topology).seconds(
        1 << 30
    )


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_slow_steps_feed_the_nics_of_a_server_nearly_always(collective):
    """A reduce takes as few messages as a broadcast, and sends to hosts as soon."""
    topology = Topology.load("dgx_h100", hosts=2)
    peers = "several" if collective == "reduce" else "one"
    price = Planner(Placement(topology)).price(collective, Form(WAVES, 16, SLOW, peers))
    limit = bound_of(collective, topology)
    assert price.per_byte <= 1.02 * float(limit.per_byte) / 1e9
    assert price.seconds(1 << 30) <= 1.04 * limit.in_rounds(1 << 30)
