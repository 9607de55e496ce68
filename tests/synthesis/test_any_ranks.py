"""Plans for any set of ranks: some devices, unlike hosts, broken and slow links."""

import random
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology, verify
from collalgo._kernels.synthesis.ordering import Ordering
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.errors import AlgorithmNotApplicable, TopologyError
from collalgo.schedule.collective import COLLECTIVES
from collalgo.synthesis.paces import Pace
from collalgo.synthesis.packing import pack
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.planner import (
    MOST_RANKS,
    MOST_UNLIKE,
    ONE,
    PACES,
    PEERS,
    Form,
    Planner,
    can_plan,
)
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.synthesized import synthesized_row
from collalgo.synthesis.ways import OF_MANY, PLANNED
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network

WAYS = [(name, way) for name, ways in PLANNED.items() for way in ways]


def some_devices():
    return Placement(
        Topology.load("dgx1v", hosts=2),
        [f"host{h}/gpu{i}" for h, i in product(range(2), (1, 3, 4, 6))],
    )


def unlike_hosts():
    hosts = Topology.load("dgx1v", hosts=3)
    lost = [f"host{h}/gpu{i}" for h, i in product((1, 2), range(2, 8))]
    return Placement(hosts.without(*lost))


def broken_and_slow():
    machine = Topology.load("dgx1v").without("gpu0-gpu3", "gpu1-gpu5")
    return Placement(machine.degraded("gpu6-gpu7", 1 / 3))


def sockets():
    return Placement(Topology.load("cpu2s", hosts=3, ranks="sockets"))


def proof_of(planner, collective, form, root=0):
    def schedule(group):
        yield from planner.steps(collective, form, group.peer(0)).of(group)

    size = planner.pairs.size
    return verify(schedule, size=size, collective=collective, root=root)


@pytest.mark.parametrize("make", [some_devices, unlike_hosts, broken_and_slow, sockets])
def test_plans_for_any_ranks_are_proved(make):
    planner = Planner(make())
    for number, (collective, way) in enumerate(WAYS):
        for peers in PEERS if COLLECTIVES[collective].reduces else [ONE]:
            pace = [*PACES][number % len(PACES)]
            proof_of(planner, collective, Form(way, 4, pace, peers))


@settings(deadline=None, max_examples=12)
@given(st.integers(2, 7), st.integers(0, 10_000), st.sampled_from(WAYS), st.data())
def test_plans_for_a_random_network_without_a_link_are_proved(size, seed, way, data):
    topology = network(size, extra=1.0, seed=seed)
    link = data.draw(st.sampled_from(topology.links))
    broken = topology.without("-".join(link.ends))
    collective, how = way
    form = Form(how, 4, *map(data.draw, map(st.sampled_from, ([*PACES], PEERS))))
    root = data.draw(st.integers(0, size - 1)) if collective in ROOTED else 0
    try:
        proof_of(Planner(Placement(broken)), collective, form, root)
    except TopologyError as error:
        assert "cannot reach" in str(error)


ROOTED = ("broadcast", "reduce", "gather", "scatter")


def trees_from(root, size):
    """The parents of all trees from a root, by brute force."""
    others = [v for v in range(size) if v != root]
    for ups in product(range(size), repeat=size - 1):
        parents = [-1] * size
        for v, up in zip(others, ups, strict=True):
            parents[v] = up
        if all(_leads_to(parents, v, root) for v in others):
            yield tuple(parents)


def _leads_to(parents, v, root):
    for _ in parents:
        v = parents[v] if v != root else v
    return v == root


def largest_load(pairs, trees):
    """The seconds of the busiest link for each byte of a unit, by brute force."""
    load = np.zeros(len(pairs.bytes_per_second))
    for parents in trees:
        for v, up in enumerate(parents):
            if up >= 0:
                pair = up * pairs.size + v
                for i in range(pairs.first[pair], pairs.first[pair + 1]):
                    load[pairs.links[i]] += pairs.parts[i]
    return (load / pairs.bytes_per_second).max()


@pytest.mark.parametrize("seed", range(6))
def test_a_packing_of_few_trees_is_nearly_the_best_of_all(seed):
    """On three hosts, all in pairs, with speeds of which one is no fraction of 2."""
    chance = random.Random(seed)
    topology = Topology("three", "a test")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(3)]
    for a, b in ((0, 1), (1, 2), (0, 2)):
        speed = chance.choice([1.0, 1 / 3, 2.5])
        topology.link(hosts[a], hosts[b], LinkKind.NETWORK, speed, latency=1e-6)
    pairs = PairLinks.of(RankRoutes(Placement(topology)))
    each = [[t for t in trees_from(r, 3) if usable(pairs, t)] for r in range(3)]
    units = 2
    best = min(largest_load(pairs, trees) for trees in product(*(each * units)))
    found = pack(pairs, [0, 1, 2] * units)
    assert largest_load(pairs, found.parents) == pytest.approx(found.busy)
    assert best * (1 - 1e-9) <= found.busy <= best * 1.34
    many = 60
    fine = pack(pairs, [0, 1, 2] * many).busy * units / many
    assert fine <= best * 1.03
    least = float(bound_of("allgather", topology).per_byte) / 1e9 * 3 * units
    assert least * (1 - 1e-8) <= fine  # whose speeds are rounded


def usable(pairs, parents):
    return all(
        pairs.usable[up * pairs.size + v] for v, up in enumerate(parents) if up >= 0
    )


def test_steps_are_as_long_as_the_busiest_link_has_something_to_send():
    """Ten transfers over one link: half of what is left, but at least one at a time."""
    count = 10
    nothing = np.zeros(0, np.int64)
    ordering = Ordering(
        np.zeros(count, np.int64),
        np.array([0, 1]),
        np.zeros(1, np.int64),
        np.ones(1),
        np.zeros(count + 1, np.int64),
        nothing,
        *np.full((4, count), -1),
        False,
        1,
    )
    assert ordering.steps(Pace(1.0)).tolist() == [*range(count)]
    assert np.bincount(ordering.steps(Pace(1.0, 0.5))).tolist() == [5, 2, 1, 1, 1]
    assert np.bincount(ordering.steps(Pace(1.0, 1.0))).tolist() == [10]
    assert np.bincount(ordering.steps(Pace(3.0, 0.2))).tolist() == [3, 3, 3, 1]


@pytest.mark.parametrize("size", [33, 48])
def test_paths_that_are_found_together_load_the_links_evenly(size):
    """With more than 32 ranks several paths from a root have the same prices."""
    topology = network(size, extra=2.0, seed=size)
    planner = Planner(Placement(topology))
    for collective in ("scatter", "gather"):
        least = float(bound_of(collective, topology).per_byte) / 1e9
        busy = planner.least(collective, Form("paths")).per_byte
        assert least * (1 - 1e-8) <= busy <= least * 1.05
    proof_of(planner, "scatter", Form("paths", 4), root=size - 1)


def test_an_alltoall_of_unlike_hosts_is_planned_for_up_to_128_and_others_up_to_320():
    for size in (MOST_RANKS, MOST_RANKS + 1, MOST_UNLIKE):
        placement = Placement(row(size))
        able = {name for name in PLANNED if can_plan(name, placement)}
        assert able == {*(PLANNED if size == MOST_RANKS else OF_MANY)}
    beyond = Placement(row(MOST_UNLIKE + 1))
    assert not any(can_plan(name, beyond) for name in PLANNED)
    with pytest.raises(AlgorithmNotApplicable, match="to 320 on others"):
        synthesized_row("broadcast", "synthesized", beyond)


def row(size):
    """Hosts in a row, which are unlike."""
    topology = Topology("a row")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(size)]
    for a, b in pairwise(hosts):
        topology.link(a, b, LinkKind.NETWORK, 5.0)
    return topology


@pytest.mark.slow
@pytest.mark.parametrize(("collective", "way"), WAYS)
def test_plans_for_16_servers_without_a_nic_are_proved(collective, way):
    topology = Topology.load("dgx_a100", hosts=16).without("host3/nic0")
    proof_of(Planner(Placement(topology)), collective, Form(way, 8))
