"""Machines that are equal to their mirror: both directions share trees and plans."""

from itertools import product

import pytest

from collalgo import Topology
from collalgo.cost.placement import Placement
from collalgo.synthesis import traffic
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network

MACHINES = [
    lambda: Topology.load("dgx1v", hosts=2),
    lambda: Topology.load("dgx_a100", hosts=3),
    lambda: Topology.load("torus", dims=(3, 4)),
    *(lambda size=size: network(size, seed=size) for size in (1, 2, 3, 5, 8)),
]


def both(topology):
    """The links from source to target, and from target to source."""
    routes = RankRoutes(Placement(topology))
    return PairLinks.of(routes), PairLinks.of(routes, reverse=True)


@pytest.mark.parametrize("make", MACHINES)
def test_links_of_equal_speed_both_ways_make_a_machine_like_its_mirror(make):
    there, back = both(make())
    assert there.is_like(back)
    assert back.is_like(there)


def one_way(is_slow):
    """Three hosts in a triangle, where routes one way may share a slow link."""
    topology = Topology("a triangle")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(3)]
    for a, b in ((0, 1), (1, 2), (0, 2)):
        speed = 1.0 if is_slow and (a, b) == (0, 2) else 5.0
        topology.link(hosts[a], hosts[b], LinkKind.NETWORK, speed)
    return topology


def test_links_of_other_speeds_or_routes_are_not_alike():
    (fast, _), (slow, _) = both(one_way(False)), both(one_way(True))
    assert not fast.is_like(slow)
    (row, _), (star, _) = both(network(5, extra=0, seed=1)), both(network(5, seed=2))
    assert not row.is_like(star)
    (more, _) = both(network(8, seed=1))
    assert not row.is_like(more)


@pytest.mark.parametrize("make", MACHINES[4:])
def test_a_gather_on_a_mirrored_machine_is_a_scatter_in_reverse(make):
    planner = Planner(Placement(make()))
    for rounds, pace in product((4, 16), ("even", "half")):
        form = Form("paths", rounds, pace)
        one, other = (planner.steps(name, form).plan for name in ("scatter", "gather"))
        back = other.reversed(reduces=False)
        assert (one.step == back.step).all()
        for mine, theirs in zip(one.transfers, back.transfers, strict=True):
            assert (mine == theirs).all()
        prices = [planner.price(name, form) for name in ("scatter", "gather")]
        assert prices[0] == prices[1]


def test_trees_of_a_mirrored_machine_are_packed_once(monkeypatch):
    packed, pack = [], traffic.pack

    def counted(*args, **options):
        packed.append(args)
        return pack(*args, **options)

    monkeypatch.setattr(traffic, "pack", counted)
    planner = Planner(Placement(network(5, seed=3)))
    for collective in ("allgather", "reduce_scatter"):
        planner.price(collective, Form("trees", 4))
    assert len(packed) == 1
    planner.price("allreduce", Form("blocks", 4))
    for collective, way in (("broadcast", "trees"), ("reduce", "trees")):
        planner.price(collective, Form(way, 4))
    assert len(packed) == 2
