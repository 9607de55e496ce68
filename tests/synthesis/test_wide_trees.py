"""Trees over many equal groups of ranks."""

import numpy as np
import pytest

from collalgo import Topology
from collalgo.cost.placement import Placement
from collalgo.synthesis.centres import depths
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan_proof import prove_plan
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.relay_trees import groups_around, over_relays
from collalgo.synthesis.ways import WAVES
from collalgo.synthesis.wide_trees import (
    CHILDREN,
    DIGITS,
    over_groups,
    spread_around,
    trees_among,
)

SHAPES = [(2, 1), (2, 4), (3, 1), (4, 3), (5, 8), (7, 33), (9, 2), (17, 5), (128, 8)]


@pytest.mark.parametrize(("groups", "members"), SHAPES)
def test_each_tree_enters_each_group_once_and_reaches_all_ranks(groups, members):
    ranks = np.arange(groups * members).reshape(groups, members)
    tried = [*over_groups(ranks.tolist(), most_trees=300)]
    assert tried
    for parents in tried:
        deep = depths(parents)
        assert (np.flatnonzero(parents[0] < 0) == [0]).all()
        assert (deep[:, 1:] > 0).all()
        assert (deep.max(axis=1) < groups * members).all()
        host = np.maximum(parents, 0) // members
        enters = (host != np.arange(groups * members) // members) & (parents >= 0)
        assert (enters.reshape(len(parents), groups, members).sum(2)[:, 1:] == 1).all()


@pytest.mark.parametrize("groups", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33, 127])
@pytest.mark.parametrize("children", CHILDREN)
def test_no_group_sends_more_than_it_receives_in_all_trees(groups, children):
    trees = trees_among(groups, children)
    assert len(trees) == children
    sent = np.bincount(trees[trees >= 0], minlength=groups)
    assert sent.max(initial=0) <= children
    for tree in trees:
        assert (tree < 0).sum() == 1
        assert np.bincount(tree[tree >= 0], minlength=1).max() <= children


@pytest.mark.parametrize("members", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33, 72])
@pytest.mark.parametrize("digits", DIGITS)
def test_ranks_around_a_circle_are_as_deep_as_their_place_has_digits(members, digits):
    above = spread_around(members, digits)
    at, deep = np.arange(members), 0
    while at.any():
        assert (above[at[at > 0]] < at[at > 0]).all()
        at, deep = above[at], deep + 1
    assert deep <= digits


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_the_plan_of_a_root_of_many_ranks_is_right_and_near_its_bound(collective):
    planner = Planner(Placement(Topology.load("dgx_a100", hosts=17)))
    form = Form(WAVES, 16, peers="several" if collective == "reduce" else "one")
    assert planner.obstacle(collective, form) is None
    steps = planner.steps(collective, form, root=9)
    prove_plan(steps.plan, collective, 9)
    line = planner.price(collective, form)
    by_bytes = line.seconds(1 << 30) - line.seconds(0.0)
    assert by_bytes < 1.5 * (1 << 30) / 200e9  # the NICs of a host


def test_racks_are_the_groups_of_their_ranks():
    """The links of each rank to 18 switches are one, and so are all leaf switches."""
    pairs = PairLinks.of(RankRoutes(Placement(Topology.load("gb200_nvl72", hosts=2))))
    assert pairs.turned.turning.symmetry == ((2, 36, 2), (True,) * 3)
    assert pairs.bytes_per_second.max() == 900e9
    for root in (0, 100):
        groups = groups_around(pairs, root)
        assert [*map(len, groups)] == [72, 72]
        assert groups[0][0] == root
    assert all((trees.parents >= -1).all() for trees in over_relays(pairs, 0))
