"""Rings of NVLinks, shares of NICs, levels, and orders of ranks."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology
from collalgo.topology import best_path
from collalgo.topology.affinity import (
    assignment,
    is_rail_optimised,
    rails,
)
from collalgo.topology.domains import levels
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.orders import rail_order, ring_order, torus_order
from collalgo.topology.path_types import PathType
from collalgo.topology.rings import bandwidth, most_cycles, rings
from tests.support.random_topologies import renamed

quickly = settings(max_examples=60)


@pytest.mark.parametrize("seed", range(5))
def test_a_dgx1v_has_six_rings_whatever_its_numbering(seed):
    machine = Topology.load("dgx1v")
    dice = random.Random(seed)
    order = list(range(len(machine.devices())))
    dice.shuffle(order)
    other, _ = renamed(
        machine, order, [f"d{i}" for i in dice.sample(range(99), 30 - 12)]
    )
    found = rings(other)
    assert sorted(ring.count for ring in found) == [2, 4]
    assert bandwidth(found) == 150.0


def cables_of(edges):
    cables = {}
    for a, b, count in edges:
        cables.setdefault(a, {})[b] = count
        cables.setdefault(b, {})[a] = count
    return cables


@quickly
@given(
    n=st.integers(3, 9), laid=st.integers(1, 3), data=st.data(), extra=st.integers(0, 4)
)
def test_planted_cycles_are_found_and_share_no_cable(n, laid, data, extra):
    counts = {}
    for _ in range(laid):
        cycle = data.draw(st.permutations([f"n{i}" for i in range(n)]))
        for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            pair = tuple(sorted((a, b)))
            counts[pair] = counts.get(pair, 0) + 1
    for _ in range(extra):
        pair = tuple(sorted(data.draw(st.permutations(list(counts)))[0]))
        counts[pair] += 1
    found = most_cycles(cables_of([(a, b, c) for (a, b), c in counts.items()]))
    used = {}
    for cycle, count in found:
        assert sorted(cycle) == sorted({x for pair in counts for x in pair})
        for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            pair = tuple(sorted((a, b)))
            used[pair] = used.get(pair, 0) + count
    assert all(used[pair] <= counts.get(pair, 0) for pair in used)
    assert sum(count for _, count in found) >= 1


def test_where_there_is_no_cycle_none_is_found():
    star = cables_of([("hub", f"n{i}", 1) for i in range(12)])
    assert most_cycles(star) == []
    bipartite = cables_of([(f"a{i}", f"b{j}", 1) for i in range(9) for j in range(8)])
    assert most_cycles(bipartite, 1000) == []


def test_a_search_is_cut_by_its_steps_alike_on_every_rank():
    dice = random.Random(1)
    pairs = [(f"n{i}", f"n{j}") for i in range(16) for j in range(i)]
    cables = cables_of([(*pair, 1) for pair in pairs if dice.random() < 0.5])
    totals = [len(most_cycles(cables, steps)) for steps in (10, 100, 1000, 10_000)]
    assert totals == sorted(totals)
    assert totals[0] == 0 < totals[-1]
    assert most_cycles(cables, 1000) == most_cycles(cables, 1000)


def test_two_gpus_are_a_ring_too():
    machine = Topology("pair")
    machine.add("g0", Kind.GPU, host="h")
    machine.add("g1", Kind.GPU, host="h")
    machine.link("g0", "g1", LinkKind.NVLINK, 100.0, count=4)
    assert [(ring.count, ring.bandwidth) for ring in rings(machine)] == [(4, 25.0)]


def test_tied_nics_are_shared_evenly():
    machine = Topology.load("server8")
    shares = assignment(machine)
    assert [len(nics) for nics in shares.values()] == [1] * 8
    assert len({nic for nics in shares.values() for nic in nics}) == 8
    few = assignment(Topology.load("server8", nics=4))
    assert [nics[0] for nics in few.values()][:4] == ["host0/nic0"] * 2 + [
        "host0/nic2"
    ] * 2


def test_a_rail_is_a_group_of_nics_on_one_leaf():
    railed = Topology.load("dgx_h100", hosts=4, rail=True)
    plain = Topology.load("dgx_h100", hosts=4)
    assert [len(rail) for rail in rails(railed)] == [4] * 8
    assert is_rail_optimised(railed)
    assert not is_rail_optimised(plain)


def test_levels_go_from_numa_nodes_to_pods():
    cluster = Topology.load("dgx1v", hosts=4, hosts_per_leaf=2)
    found = {level.name: len(level.parts) for level in levels(cluster)}
    assert found == {"numa": 8, "nvlink": 4, "host": 4, "rack": 2, "pod": 1}
    assert [level.name for level in levels(Topology.load("mi250x"))][:2] == [
        "numa",
        "socket",
    ]


def test_a_ring_order_follows_nvlinks_host_by_host():
    cluster = Topology.load("dgx1v", hosts=3)
    order = ring_order(cluster)
    assert sorted(order) == sorted(gpu.id for gpu in cluster.devices(Kind.GPU))
    hosts = [gpu.split("/")[0] for gpu in order]
    assert hosts == sorted(hosts)
    for a, b in pairwise(order):
        if a.split("/")[0] == b.split("/")[0]:
            assert best_path(cluster, a, b).type is PathType.NVL


def test_a_torus_has_a_row_for_each_host():
    rows = torus_order(Topology.load("dgx_a100", hosts=3))
    assert [len(row) for row in rows] == [8, 8, 8]
    assert [gpu.split("/")[1] for gpu in rows[0]] == [
        gpu.split("/")[1] for gpu in rows[1]
    ]


@pytest.mark.parametrize("rail", range(8))
def test_a_rail_aligned_ring_crosses_hosts_on_one_rail(rail):
    cluster = Topology.load("dgx_h100", hosts=4, rail=True)
    order = rail_order(cluster, rail)
    nics = assignment(cluster)
    rail_of = {nic: i for i, group in enumerate(rails(cluster)) for nic in group}
    crossings = [
        (a, b)
        for a, b in zip(order, (*order[1:], order[0]), strict=True)
        if a.split("/")[0] != b.split("/")[0]
    ]
    assert len(crossings) == 4
    for a, b in crossings:
        assert rail_of[nics[a][0]] == rail_of[nics[b][0]]
