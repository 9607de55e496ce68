"""Allreduces in which each rank combines a share of the buffer."""

import pytest

from collalgo import AlgorithmNotApplicable, Topology
from collalgo.cost.placement import Placement
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.synthesized import Synthesis
from collalgo.synthesis.ways import SHARES
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network, unmirrored


def star(slow):
    """Four hosts around a switch, one of them with a slow link."""
    topology = Topology("a star")
    switch = topology.add("switch", Kind.SWITCH)
    for number in range(4):
        host = topology.add(f"host{number}", Kind.HOST)
        speed = slow if number == 2 else 10.0
        topology.link(host, switch, LinkKind.NETWORK, speed)
    return topology


def per_byte(planner, way):
    return planner.least("allreduce", Form(way)).per_byte


def shares_of_ranks(planner):
    """The part of the buffer that each rank combines."""
    plan = planner.steps("allreduce", Form(SHARES, 4)).plan
    units = int(plan.blocks.units[0])
    combined = plan.transfers.reduces
    senders = plan.transfers.source[combined] * units + plan.transfers.unit[combined]
    sent = {(int(one) // units, int(one) % units) for one in senders}
    roots = [
        next(rank for rank in range(plan.size) if (rank, unit) not in sent)
        for unit in range(units)
    ]
    return [roots.count(rank) / units for rank in range(plan.size)]


def test_a_rank_behind_a_slow_link_combines_as_much_as_it_receives():
    """Half of the buffer: it sends the other half to be combined."""
    planner = Planner(Placement(star(slow=2.0)))
    found = shares_of_ranks(planner)
    assert found[2] == pytest.approx(1 / 2, abs=0.02)
    assert per_byte(planner, SHARES) < 0.7 * per_byte(planner, "blocks")


def test_equal_ranks_combine_equal_shares():
    found = shares_of_ranks(Planner(Placement(star(slow=10.0))))
    assert found == pytest.approx([1 / 4] * 4, abs=0.02)


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_shares_load_links_no_more_than_equal_blocks(size):
    planner = Planner(Placement(network(size, seed=size)))
    assert per_byte(planner, SHARES) <= 1.02 * per_byte(planner, "blocks")


def test_shares_are_refused_where_links_differ_in_their_directions():
    synthesis = Synthesis(Planner(Placement(unmirrored(1))))
    with pytest.raises(AlgorithmNotApplicable, match="differ in their directions"):
        synthesis.named("allreduce", "synthesized(way='shares')")
    assert not any("shares" in one.name for one in synthesis.variants("allreduce"))


def test_shares_of_ranks_that_are_all_alike_are_not_tried():
    planner = Planner(Placement(Topology.load("dgx_a100")))
    assert not planner.is_tried(Form(SHARES))
    assert planner.is_tried(Form("blocks"))
