"""Links that all messages share in the same proportion, as one."""

import numpy as np
import pytest

from collalgo.cost.joint_links import joined
from collalgo.cost.turning import Loads


def seconds(loads, speed, amounts):
    """The busiest link of some amounts of each pair."""
    busy = np.bincount(loads.link, amounts[loads.pair] * loads.part, len(speed))
    return (busy / speed).max(initial=0.0)


@pytest.mark.parametrize("seed", range(20))
def test_messages_take_as_long_over_joint_links(seed):
    chance = np.random.default_rng(seed)
    pairs, groups = int(chance.integers(1, 9)), int(chance.integers(1, 6))
    columns = chance.random((groups, pairs)) * (chance.random((groups, pairs)) < 0.7)
    which = chance.integers(0, groups, 12)
    speed = chance.integers(1, 9, 12).astype(float)
    parts = columns[which] * speed[:, None]
    link, pair = np.nonzero(parts)
    order = np.lexsort((link, pair))
    loads = Loads(pair[order], link[order], parts[link, pair][order])
    fewer, sums, _ = joined(loads, speed, np.zeros(12, np.bool_))
    used = {tuple(row) for row in columns[which] if row.any()}
    assert len(sums) == len(used)
    for _ in range(5):
        amounts = chance.random(pairs)
        expected = seconds(loads, speed, amounts)
        assert seconds(fewer, sums, amounts) == pytest.approx(expected)


def test_a_joint_link_is_assumed_if_one_of_its_links_is():
    zero = np.zeros(2, np.int64)
    loads = Loads(zero, np.arange(2), np.array([0.25, 0.75]))
    _, speed, assumed = joined(loads, np.array([1.0, 3.0]), np.array([False, True]))
    assert (speed.tolist(), assumed.tolist()) == ([4.0], [True])


def test_links_are_told_apart_beside_one_that_is_much_faster():
    """The seconds of slow links end in many zeros, by which mixed numbers lose bits."""
    number = np.arange(64)
    loads = Loads(number, number, np.ones(64))
    speed = np.where(number, 1.0, 2.0**30)
    assert len(joined(loads, speed, np.zeros(64, np.bool_))[1]) == 64
