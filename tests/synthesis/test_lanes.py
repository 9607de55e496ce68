"""The steps and lanes of units that a rank sends to several peers, or combines."""

import numpy as np

from collalgo._kernels.synthesis.ordering import Ordering
from collalgo.synthesis.paces import Pace


def star(units, several, near=()):
    """Units from rank 0 to some of the ranks 1 to 9, each over a link of its own."""
    joint = np.repeat(np.arange(len(units)), [*map(len, units)])
    spoke = np.concatenate(units)
    return Ordering(
        spoke,
        np.array([0, *range(10)]),
        np.arange(9),
        np.ones(9),
        np.zeros(len(spoke) + 1, np.int64),
        np.zeros(0, np.int64),
        joint,
        np.isin(spoke, near).astype(np.int64),
        np.zeros(len(spoke), np.int64),
        spoke,
        several,
        9,
    )


def placed(units, several, length, near=(), whole=False):
    """The step and the lane of each transfer."""
    ordering = star([np.array(unit) for unit in units], several, near)
    steps = ordering.steps(Pace(length, whole=whole)).tolist()
    return [*zip(steps, ordering.lane.tolist(), strict=True)]


def test_a_unit_may_wait_until_all_its_transfers_fit():
    """The link to 2 is full: the second unit is divided, or in the next step."""
    units = [[1, 2], [2, 3, 4], [3, 4]]
    divided, whole = (placed(units, True, 1.0, whole=one) for one in (False, True))
    assert [step for step, _ in divided] == [0, 0, 1, 0, 0, 1, 1]
    assert [step for step, _ in whole] == [0, 0, 1, 1, 1, 0, 0]


def test_units_of_equal_sets_of_peers_share_a_lane():
    units = [(1, 2, 3)] * 4
    assert placed(units, True, 2.0) == [(0, 0)] * 6 + [(1, 0)] * 6


def test_units_of_other_sets_of_peers_have_lanes_of_their_own():
    units = [(1, 2), (2, 3), (1, 3), (1,)]
    lanes = [0, 0, 1, 1, 2, 2, 1]
    assert placed(units, True, 9.0) == [(0, lane) for lane in lanes]


def test_a_unit_without_a_lane_goes_to_those_peers_that_share_one():
    taken = [(1, peer) for peer in range(3, 10)]
    found = placed([*taken, (1, 2), (3, 5, 9), (2, 9)], True, 99.0)
    assert found[:14] == [(0, lane) for lane in range(7) for _ in range(2)]
    assert found[14:16] == [(1, 0), (0, 0)]  # rank 1 is in a set of each lane
    assert found[16:] == [(0, 1)] * 3 + [(0, 2)] * 2


def test_a_unit_goes_to_a_set_of_peers_of_a_lane_rather_than_to_new_ones():
    assert placed([(1, 2), (1, 2, 3, 4)], True, 9.0)[2:4] == [(0, 1)] * 2
    assert placed([(1, 2), (1, 2), (3, 4)], True, 9.0) == [(0, 0)] * 6


def test_a_unit_goes_to_peers_on_its_host_and_on_others_in_steps_of_their_own():
    units = [(1, 2, 8), (1, 2, 9), (8, 1, 2)]
    found = placed(units, True, 9.0, near=(1, 2))
    assert found[:3] == [(0, 0), (0, 0), (1, 0)]
    assert found[3:6] == [(0, 0), (0, 0), (1, 0)]
    assert found[6:] == [(0, 0), (1, 0), (1, 0)]


def test_a_unit_goes_to_one_peer_in_a_step_if_the_form_says_so():
    units = [(1, 2, 3)] * 2
    assert placed(units, False, 9.0) == [(0, 0), (1, 0), (2, 0)] * 2
