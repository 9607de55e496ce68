"""The slowdown of steps with new peers and of steps with crowded links."""

import pytest

from collalgo import Topology, select
from collalgo.algorithms.catalogue import find
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import LinkModel
from collalgo.selection.on_topology import TopologyPricer
from tests.support.clusters import FILES

#: Bytes beside which the latencies of a schedule do not count.
LONG = 2.0**60

MACHINE = HostProfile(2e-7, 2e-6, 1e-7, 1e-10, 1e-10, cores=2)


@pytest.fixture
def star():
    return Topology.read(FILES / "star.yaml")


def per_byte(topology, name, collective="allreduce", *, turning=0.0, crowding=0.0):
    pricer = TopologyPricer(topology, LinkModel(turning=turning, crowding=crowding))
    priced = pricer.price_one(find(collective, name, pricer.size))
    return priced.price.seconds(LONG) / LONG


def test_a_ring_keeps_its_peers_and_halving_does_not(star):
    assert per_byte(star, "ring", turning=0.5) == per_byte(star, "ring")
    plain, turning = (per_byte(star, "halving_doubling", turning=t) for t in (0.0, 0.5))
    assert plain < turning <= 1.5 * plain


def test_a_step_is_crowded_where_several_messages_share_a_link_of_a_network(star):
    inside = Topology.load("dgx1v")  # its ranks share links, but no network links
    pipeline, trees = ("pipeline", "broadcast"), ("double_tree", "broadcast")
    for machine, *which in ((star, *pipeline), (inside, *trees), (inside, "linear")):
        assert per_byte(machine, *which, crowding=0.5) == per_byte(machine, *which)


@pytest.mark.parametrize(
    ("which", "messages"), [(("hierarchical",), 2), (("linear", "alltoall"), 12)]
)
def test_the_more_messages_share_a_link_the_longer_they_take(star, which, messages):
    plain, crowded = (per_byte(star, *which, crowding=c) for c in (0.0, 0.5))
    most = plain * (1 + 0.5 * (1 - 1 / messages))  # except in the steps within a host
    assert 0.99 * most < crowded <= most


def test_the_segments_of_a_pipeline_that_share_a_link_are_crowded(star):
    trees = ("double_tree", "broadcast")
    plain, crowded = (per_byte(star, *trees, crowding=c) for c in (0.0, 0.5))
    assert 1.3 * plain < crowded < 1.4 * plain  # by three or four messages


def test_an_alltoall_of_pairs_is_better_where_each_has_a_nic():
    rails = Topology.read(FILES / "rails.yaml")
    pricer = TopologyPricer(rails, LinkModel.of_host(MACHINE))
    assert select("alltoall", 1 << 24, topology=pricer).row.base_name == "pairwise"


def test_a_chain_is_better_than_stripes_that_share_a_nic(star):
    pricer = TopologyPricer(star, LinkModel.of_host(MACHINE))
    assert select("broadcast", 1 << 24, topology=pricer).row.base_name == "pipeline"
    rails = Topology.read(FILES / "rails.yaml")
    pricer = TopologyPricer(rails, LinkModel.of_host(MACHINE))
    assert (
        select("broadcast", 1 << 24, topology=pricer).row.base_name == "striped_chains"
    )


def test_of_equals_what_keeps_its_peers_is_chosen(star):
    chosen = select("allreduce", 1 << 24, topology=TopologyPricer(star))
    assert chosen.seconds < 1.03 * chosen.bound_seconds
    pricer = TopologyPricer(star, LinkModel.of_host(MACHINE))
    steady = select("allreduce", 1 << 24, topology=pricer)
    assert steady.row.base_name == "ring_2d"
    assert steady.seconds < 1.04 * steady.bound_seconds
