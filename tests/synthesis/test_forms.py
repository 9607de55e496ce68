"""The forms of plans, and the cheapest form of all."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from collalgo import AlgorithmNotApplicable, Topology
from collalgo.cost.bounds import bound_of
from collalgo.cost.placement import Placement
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.prices import SIZES, prune
from collalgo.selection.synthesis_candidates import SynthesisCandidates
from collalgo.synthesis import synthesized as synthesized_rows, wave_traffic
from collalgo.synthesis.forms import FROM_ONE, LONGER, MANY, SHORTER, forms
from collalgo.synthesis.paces import EVEN, PACES, RAMP
from collalgo.synthesis.planner import MOST_RANKS, PEERS, SEVERAL, Form, Planner
from collalgo.synthesis.synthesized import (
    Synthesis,
    first_way,
    form_of,
    synthesized,
)
from collalgo.synthesis.tree_transfers import MOST_TRANSFERS
from collalgo.synthesis.wave_packing import pack_waves
from collalgo.synthesis.ways import PLANNED, WAVES
from tests.support.host_networks import network

REDUCING = ("reduce_scatter", "allreduce", "reduce")

MACHINES = [
    lambda: network(5, seed=3),
    lambda: Topology.load("dgx1v"),
    lambda: Topology.load("mi250x"),
    lambda: Topology.load("dgx_h100"),
]


@pytest.mark.parametrize("collective", REDUCING)
@pytest.mark.parametrize(
    "make", [*MACHINES, lambda: Topology.load("dgx_h100", hosts=2)]
)
def test_messages_that_are_combined_at_once_are_equal_from_every_peer(make, collective):
    form = Form(first_way(collective), 8, "half", SEVERAL)
    plan = Planner(Placement(make())).steps(collective, form).plan
    peers, units = defaultdict(set), defaultdict(set)
    columns = [*plan.transfers[:4], plan.step, plan.lane]
    of_sums = np.stack(columns)[:, plan.transfers.reduces]
    for source, target, block, unit, step, lane in of_sums.T.tolist():
        peers[step, target, block, unit].add((lane, source))
        units[step, target, lane, source].add((block, unit))
    for (step, target, *message), combined in units.items():
        (shared,) = {frozenset(peers[(step, target, *unit)]) for unit in combined}
        assert tuple(message) in shared
        assert len({lane for lane, _ in shared}) == 1
        assert all(units[(step, target, *one)] == combined for one in shared)


@pytest.mark.parametrize("collective", REDUCING)
@pytest.mark.parametrize("make", MACHINES)
def test_the_cheapest_plan_is_as_cheap_as_that_of_each_form(collective, make):
    of = SynthesisCandidates(Placement(make()))
    (row,) = of.rows(collective)
    chosen = [one.price.seconds(SIZES) for one in prune(of.of(row), SIZES)]
    best = np.min(chosen, axis=0)
    priced = [one.priced for one in of.of(row)]
    for peers in PEERS:
        alone = [
            one.price.seconds(SIZES)
            for one in priced
            if form_of(one.row).peers == peers
        ]
        assert len(alone) >= 4
        assert (best <= np.min(alone, axis=0) * (1 + 1e-6)).all()


@pytest.mark.parametrize("make", MACHINES)
def test_what_bounds_the_price_of_a_plan_is_never_above_it(make):
    of = SynthesisCandidates(Placement(make()))
    for collective in PLANNED:
        (row,) = of.rows(collective)
        for candidate in of.of(row):
            bounds = [candidate.least.seconds(SIZES)]
            while not candidate.known:
                candidate.improve()
                bounds.append(candidate.least.seconds(SIZES))
            for lower, higher in pairwise(bounds):
                assert (lower <= higher * (1 + 1e-6)).all()


@pytest.mark.parametrize("name", ["dgx2", "dgx_a100", "dgx_h100", "mi300x", "p4d"])
def test_a_reduction_over_a_switch_costs_what_a_gathering_does(name):
    pricer = TopologyPricer(Topology.load(name))
    cheapest = []
    for collective in ("allgather", "reduce_scatter"):
        found = pricer.prune([pricer.find(collective, "synthesized")], SIZES)
        cheapest.append(min(one.price.seconds(1 << 30) for one in found))
    assert cheapest[1] <= cheapest[0] * 1.001


def test_the_least_steps_are_those_of_the_busiest_link():
    assert Form("trees", 64).least_steps("allgather") == 64
    assert Form("trees", 64, "half").least_steps("allgather") == 7
    assert Form("trees", 64, "half").least_steps("reduce") == 64
    assert Form("trees", 64, "half", SEVERAL).least_steps("reduce") == 7
    assert Form("blocks", 64, "half").least_steps("allreduce") == 64 + 7
    for pace in PACES:
        assert Form("trees", 1, pace).least_steps("broadcast") == 1


def test_forms_that_combine_nothing_have_no_peers_to_combine_with():
    for collective, ways in PLANNED.items():
        for way in ways:
            found = forms(collective, way)
            assert len({*found}) == len(found)
            assert {Form(way, rounds) for rounds in (16, 64, 96)} & {*found}
            several = any(form.peers == SEVERAL for form in found)
            assert not several or collective in REDUCING


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 16, 33])
def test_waves_take_their_rounds_and_a_step_for_each_level_of_the_trees(size):
    """All trees carry data in each step, so that links are as busy as on average."""
    pairs = Planner(Placement(network(size, seed=size))).pairs
    trees = pack_waves(pairs, size - 1)
    waves = wave_traffic.broadcast(pairs, size - 1, False)
    for rounds in (4, 17):
        plan = waves.represented(rounds, PACES[EVEN], False, 1)
        assert plan.steps <= rounds + deepest(trees) - 1
        seconds = seconds_in_steps(plan, pairs).max(axis=1)
        assert seconds.max() <= waves.busy * (1 + 1e-6)
        assert plan.blocks.units.sum() == rounds * len(trees.parents)


def test_waves_of_too_many_transfers_are_neither_tried_nor_accepted():
    placement = Placement(Topology.load("dgx_a100", hosts=16))
    planner = Planner(placement)
    waves = wave_traffic.broadcast(planner.pairs, 0, False)
    most = MOST_TRANSFERS // len(waves.transfers.source)
    assert 16 < most < max(rounds for rounds, pace in FROM_ONE if pace == RAMP)
    for collective in ("broadcast", "reduce"):
        tried = [form_of(row) for row in Synthesis(planner).variants(collective)]
        parts = [one.rounds * one.parts_of_round for one in tried if one.way == WAVES]
        assert max(parts, default=0) <= most
    for rounds in (4096, most + 1):
        name = f"synthesized(way='waves', rounds={rounds})"
        with pytest.raises(AlgorithmNotApplicable, match=f"at most {most} rounds"):
            synthesized("broadcast", name, placement)
    assert synthesized(
        "broadcast", f"synthesized(way='waves', rounds={most})", placement
    )
    plan = waves.represented(4096, PACES[EVEN], False, 1)
    assert len(plan.transfers.source) <= MOST_TRANSFERS


def test_waves_of_sums_are_for_as_many_ranks_as_are_planned_one_by_one():
    planner = Planner(Placement(Topology.load("dgx_a100", hosts=MOST_RANKS // 8 + 1)))
    tried = [form_of(row) for row in Synthesis(planner).variants("allreduce")]
    assert tried
    assert all(form.way != WAVES for form in tried)
    assert {512, 1024} <= {form.rounds for form in tried if form.way == "trees"}


@pytest.mark.parametrize("waves", [True, False])
def test_forms_of_many_rounds_are_tried_only_without_waves(monkeypatch, waves):
    def obstacle(planner, collective, form):
        return None if waves or form.way != WAVES else "too many transfers"

    monkeypatch.setattr(Planner, "obstacle", obstacle)
    synthesis = Synthesis(Planner(Placement(network(5, seed=3))))
    for collective in ("allreduce", "reduce", "broadcast"):
        tried = [form_of(row) for row in synthesis.variants(collective)]
        others = [form for form in tried if form.way != WAVES]
        most = MANY if waves else max(SHORTER)[0]
        most = max(LONGER)[0] if collective == "broadcast" else most
        if collective == "reduce" and waves:
            # the few trees load the links as evenly
            most = synthesized_rows.MOST_BESIDE_WAVES
        assert max(form.rounds for form in others) == most


def test_trees_of_many_rounds_are_tried_where_waves_load_links_unevenly(monkeypatch):
    monkeypatch.setattr(synthesized_rows, "AS_BUSY", 0.99)
    synthesis = Synthesis(Planner(Placement(network(5, seed=3))))
    tried = [form_of(row) for row in synthesis.variants("reduce")]
    assert max(form.rounds for form in tried if form.way != WAVES) == MANY


def deepest(trees):
    """The depth of the deepest rank of all trees."""
    depth = 0
    for parents in trees.parents:
        for rank in range(len(parents)):
            up = 0
            while parents[rank] >= 0:
                rank, up = parents[rank], up + 1
            depth = max(depth, up)
    return depth


@pytest.mark.parametrize("name", ["dgx1v", "mi250x"])
def test_few_trees_of_waves_load_servers_as_little_as_the_bound(name):
    topology = Topology.load(name)
    trees = pack_waves(Planner(Placement(topology)).pairs, 0)
    bound = float(bound_of("broadcast", topology).per_byte) / 1e9
    assert len(trees.parents) <= 64
    assert trees.busy / len(trees.parents) == pytest.approx(bound, rel=0.05)


def seconds_in_steps(plan, pairs):
    """The seconds that each link is busy in each step, for each byte of a unit."""
    found = np.zeros((plan.steps, len(pairs.bytes_per_second)))
    pair = plan.transfers.source * pairs.size + plan.transfers.target
    for step, of in zip(plan.step, pair, strict=True):
        links = slice(pairs.first[of], pairs.first[of + 1])
        found[step, pairs.links[links]] += pairs.parts[links]
    return found / pairs.bytes_per_second


@pytest.mark.parametrize("pace", ["fifth", "half"])
@pytest.mark.parametrize("make", [*MACHINES, lambda: Topology.load("dgx1v", hosts=2)])
def test_the_busiest_links_are_not_idle_in_long_steps(make, pace):
    """A longer step than the shortest does not make such a link wait for others."""
    planner, rounds = Planner(Placement(make())), 64
    steps = planner.steps("allgather", Form("trees", rounds, pace)).plan
    busy = seconds_in_steps(steps, planner.pairs)
    left = busy[::-1].cumsum(axis=0)[::-1]
    one = (planner.pairs.parts / planner.pairs.bytes_per_second.min()).max()
    shortest = left[0].max() / rounds + 2 * one
    lengths = busy.max(axis=1)
    assert lengths.max() > 2 * shortest
    for now, rest, length in zip(busy, left, lengths, strict=True):
        idle = length - now[rest >= 0.9 * rest.max()].min()
        assert length <= shortest or idle <= shortest
