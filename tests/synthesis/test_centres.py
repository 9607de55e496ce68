"""Trees from their centres."""

import numpy as np
import pytest

from collalgo import Topology
from collalgo.cost.bounds import bound
from collalgo.cost.placement import Placement
from collalgo.synthesis import wave_traffic
from collalgo.synthesis.centres import centred, depths, mean_depth
from collalgo.synthesis.forms import forms
from collalgo.synthesis.planner import Planner
from collalgo.synthesis.wave_packing import hubs
from collalgo.synthesis.ways import WAVES
from tests.support.host_networks import network

SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 33)


def random_trees(size, count=8):
    """Random trees of some ranks, the first of which is a chain."""
    chance = np.random.default_rng(size)
    trees = np.full((count, size), -1, np.int32)
    for tree in trees:
        order = chance.permutation(size)
        for place in range(1, size):
            tree[order[place]] = order[chance.integers(place)]
    trees[0] = np.arange(size) - 1
    return trees


def edges(tree):
    """The edges of a tree without directions."""
    return {frozenset((v, int(u))) for v, u in enumerate(tree) if u >= 0}


def distances(tree):
    """The number of edges between each two ranks of a tree."""
    size = len(tree)
    found = np.where(np.eye(size, dtype=bool), 0, size)
    for u, v in map(tuple, edges(tree)):
        found[u, v] = found[v, u] = 1
    for middle in range(size):
        found = np.minimum(found, found[:, [middle]] + found[middle])
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_centred_tree_has_the_same_edges_and_the_least_depth(size):
    trees = random_trees(size)
    found = centred(trees)
    for before, after in zip(trees, found, strict=True):
        assert edges(before) == edges(after)
        assert (after == -1).sum() == 1
        assert depths(after[None]).max() == distances(before).max(axis=1).min()


@pytest.mark.parametrize("size", SIZES)
def test_depths_are_distances_from_the_root(size):
    trees = random_trees(size)
    expected = [distances(tree)[tree.argmin()] for tree in trees]
    assert (depths(trees) == expected).all()
    assert mean_depth(trees) == pytest.approx(np.mean([*map(np.max, expected)]))


def test_ranks_outside_a_path_have_no_depth():
    assert depths(np.array([[-1, 0, -2, 1]], np.int32)).tolist() == [[0, 1, 0, 2]]


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_trees_of_sums_in_waves_start_at_their_centres(size):
    planner = Planner(Placement(network(size, seed=size)))
    sums = wave_traffic.allreduce(planner.pairs, 0, True)
    count = len(sums.transfers.source) // 2
    onward = slice(count, None)
    trees = np.full((sums.blocks.units[0], size), -1, np.int32)
    unit, target = sums.transfers.unit[onward], sums.transfers.target[onward]
    trees[unit, target] = sums.transfers.source[onward]
    assert (centred(trees) >= 0).sum() == count
    assert mean_depth(centred(trees)) == mean_depth(trees)


def test_a_slow_rank_is_the_last_of_the_hubs():
    for slow in (0, 3, 5):
        star = Topology.load("fully_connected", hosts=7).degraded(f"host{slow}", 0.25)
        assert hubs(Planner(Placement(star)).pairs)[-1] == slow


def test_sums_in_waves_attain_the_bound_beside_a_slow_link():
    server = Topology.load("dgx1v", hosts=2, nics=1).degraded("host0/nic0-leaf0", 0.5)
    limit = bound("allreduce", server).seconds("1G")
    planner = Planner(Placement(server))
    prices = [planner.price("allreduce", form) for form in forms("allreduce", WAVES)]
    assert min(price.seconds(1 << 30) for price in prices) < 1.02 * limit
