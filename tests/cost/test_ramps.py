"""The least time of a broadcast between hosts, whose links fill in steps."""

from itertools import combinations_with_replacement, islice, pairwise
from math import inf

import pytest

from collalgo import Topology
from collalgo.cost.bounds import bound
from collalgo.cost.ramps import Ramp, Ramps

#: The sets of ranks that grow from step to step.
ROOT, HOME, WITHOUT_HOST, WITHOUT_RANK = range(4)


def carried(own, rates, hosts, ranks):
    """What moves in a second from inside a set to outside the next one."""
    fastest, last = rates
    into = {HOME: 1, WITHOUT_HOST: 1 / hosts, WITHOUT_RANK: 1 / hosts / ranks}
    found = {(HOME, to): into[to] for to in into}
    found |= {(ROOT, to): own * into[to] for to in into}
    found |= {(ROOT, ROOT): fastest, (WITHOUT_RANK, WITHOUT_RANK): last}
    found[WITHOUT_HOST, WITHOUT_HOST] = 1
    found[WITHOUT_HOST, WITHOUT_RANK] = 1 / ranks
    return found


def least_seconds(steps, own, rates, hosts, ranks):
    """The least seconds of all steps and of those inside hosts, by their cuts.

    The links between hosts carry the buffer in a second.
    """
    linprog = pytest.importorskip("scipy.optimize").linprog
    moves, inside = carried(own, rates, hosts, ranks), (rates[0], 0, 0, rates[1])
    rows = [
        [*(-moves[pair] for pair in pairwise(sets)), *(-inside[one] for one in sets)]
        for sets in combinations_with_replacement(range(4), steps + 1)
    ]
    found = linprog([1.0] * (2 * steps + 1), rows, [-1.0] * len(rows), method="highs")
    return found.fun


def least_of(ramps, steps):
    """The least seconds without latencies of the same, of at most some steps."""
    inside = max(end.excess for end in ramps.ends)
    numbers = [*islice(ramps.ends[0].filled(inside), steps)]
    numbers += islice(ramps.ends[1].filled(inside), steps)
    if ramps.late:
        numbers += [count / ramps.late - 1 for count in range(1, steps + 1)]
    number = sorted(numbers)[steps - 1]
    return 1 + 1 / number if number else inf


@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (1.25, 1.25), (2.0, 1.5), (6.0, 9.0)])
@pytest.mark.parametrize(("own", "ranks"), [(0.125, 8), (0.5, 2), (0.25, 3)])
def test_no_steps_within_the_cuts_are_faster(hosts, rates, own, ranks):
    ends = Ramp(1 - own, rates[0] - 1), Ramp(1 - 1 / ranks, rates[1] - 1)
    ramps = Ramps(1.0, 0.0, 1 - 1 / hosts, ends)
    for steps in (2, 3, 5, 6):
        least = least_seconds(steps, own, rates, hosts, ranks)
        assert least >= least_of(ramps, steps) * (1 - 1e-9)


def test_it_is_near_the_cuts_where_ranks_are_little_faster_than_their_hosts():
    ends = Ramp(0.875, 0.25), Ramp(0.875, 0.25)
    ramps = Ramps(1.0, 0.0, 0.0, ends)
    for steps in (4, 6, 7):
        above = least_seconds(steps, 0.125, (1.25, 1.25), 1, 8) - 1
        assert 0.8 * above <= least_of(ramps, steps) - 1 <= above


def test_the_least_is_that_of_the_best_number_of_steps():
    """Steps that are half idle at one end, which double, wait for 1 / (2 ** p - 1)."""
    ramps = Ramps(1.0, 0.01, 0.0, (Ramp(1.0, 1.0), Ramp(0.0, 0.0)))
    tried = [steps * 0.01 + 1 + 0.5 / (2**steps - 1) for steps in range(1, 20)]
    assert ramps.seconds(1e9) == pytest.approx(min(tried))


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_server_sends_by_the_nic_of_the_root_alone_at_first(collective):
    limit = bound(collective, Topology.load("dgx_h100", hosts=2))
    (ramps,) = [one for one in limit.relays if isinstance(one, Ramps)]
    assert [end.idle for end in ramps.ends] == pytest.approx([7 / 8, 7 / 8])
    assert ramps.late == 0
    assert 1.02 < limit.in_rounds(1 << 30) / limit.seconds(1 << 30) < 1.04


def test_hosts_of_one_rank_have_no_ramps():
    limit = bound("broadcast", Topology.load("torus", dims=(3, 3)))
    assert not any(isinstance(one, Ramps) for one in limit.relays)
