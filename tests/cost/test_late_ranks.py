"""Ranks that come late: only the steps in which they take part wait for them."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import Topology, TopologyError, select, simulate
from collalgo.cli.main import main
from collalgo.cost.bounds import bound

GIB = 1 << 30
SECOND = {2: 1.0}


def allreduce(name, topology, late=None):
    return simulate(name, topology, GIB, collective="allreduce", late=late)


@pytest.mark.parametrize("size", [3, 5, 7, 8, 12])
def test_the_others_of_a_late_rank_wait_with_all_their_data_combined(size):
    """From its arrival on, that takes as long as its data and one of the pieces."""
    switch = Topology.load("fully_connected", hosts=size, latency=0.0)
    ring = allreduce("ring", switch)
    assert allreduce("ring", switch, SECOND).seconds == pytest.approx(ring.seconds)
    late = allreduce("late_rank(late=2, blocks=16)", switch, SECOND)
    on_time = allreduce("late_rank(late=2, blocks=16)", switch)
    finish = sum(on_time.steps[-17:])
    assert late.seconds == pytest.approx(finish)
    assert late.steps == on_time.steps


@pytest.mark.parametrize("name", ["dgx_a100", "dgx2"])
def test_a_late_rank_delays_a_server_by_little_more_than_its_own_data(name):
    server = Topology.load(name)
    least = bound("broadcast", server).seconds(GIB)
    late = allreduce("late_rank(late=2, blocks=32)", server, SECOND)
    assert least < late.seconds < 1.1 * least
    assert late.ratio == pytest.approx(late.seconds / least)
    assert allreduce("ring", server, SECOND).seconds > 1.7 * least


def test_a_rank_that_is_late_by_less_saves_less():
    server = Topology.load("dgx2")
    name = "late_rank(late=2, blocks=32)"
    seconds = [allreduce(name, server, {2: i * 1e-3}).seconds for i in range(12)]
    total = allreduce(name, server).seconds
    saved = [total - one for one in seconds]
    assert saved[0] == pytest.approx(0)
    assert saved == pytest.approx(sorted(saved))
    assert saved[1] == pytest.approx(1e-3)
    assert saved[-1] == pytest.approx(saved[-2])


def test_of_several_late_ranks_the_last_counts():
    server = Topology.load("dgx_a100")
    both = allreduce("ring", server, {2: 1.0, 3: 0.5})
    assert both.seconds == pytest.approx(allreduce("ring", server, {2: 1.0}).seconds)


def test_the_bound_of_several_late_ranks_does_not_depend_on_their_order():
    fast_and_slow = Topology.load("dgx_a100").degraded("gpu0", 0.2)
    for late in ({2: 1.0, 0: 0.5}, {0: 1.0, 2: 1.0}, {1: 0.25, 0: 0.5, 2: 0.125}):
        found = [
            allreduce("late_rank(late=2, blocks=32)", fast_and_slow, dict(pairs))
            for pairs in permutations(late.items())
        ]
        assert len({(one.seconds, one.bound, one.ratio) for one in found}) == 1
        assert found[0].ratio >= 1
        last = min(rank for rank in late if late[rank] == max(late.values()))
        assert found[0].bound == bound("broadcast", fast_and_slow, last)


def test_one_rank_that_comes_late_needs_no_time():
    alone = Topology.load("fully_connected", hosts=1)
    assert allreduce("ring", alone, {0: 1.0}).seconds == 0


def test_late_ranks_and_the_start_of_the_time_are_named():
    server = Topology.load("dgx_a100")
    found = allreduce("ring", server, {2: 0.01, np.int64(0): Fraction(1, 2)})
    assert found.late == {2: 0.01, 0: 0.5}
    words = "late: rank 0 by 500 ms, rank 2 by 10 ms; the time starts when rank 0"
    assert words in str(found)
    on_time = allreduce("ring", server)
    assert on_time.late is None
    assert "late" not in str(on_time)


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        ({1.5: 1.0}, "late rank is 1.5, of type float; pass an integer from 0 to 7"),
        ({"1": 1.0}, "late rank is '1', of type str; pass an integer from 0 to 7"),
        ({1: "x"}, "late rank 1 comes after 'x', of type str; pass a number of"),
        ({1: True}, "late rank 1 comes after True, of type bool; pass a number of"),
        ([1.0], "late is .1.0., of type list; pass the seconds of each late rank"),
        ({8: 1.0}, "late rank 8 is out of range"),
        ({-1: 1.0}, "late rank -1 is out of range"),
        ({1: -1.0}, "pass seconds from 0"),
        ({1: float("nan")}, "pass seconds from 0"),
        ({1: float("inf")}, "pass seconds from 0"),
        ({1: 10**400}, "pass seconds from 0"),
        ({1: Fraction(10**400, 3)}, "pass seconds from 0"),
    ],
)
def test_late_ranks_that_cannot_be_are_refused(late, reason):
    with pytest.raises((TypeError, ValueError), match=reason):
        allreduce("ring", Topology.load("dgx_a100"), late)


def test_late_ranks_are_refused_where_no_steps_are_known():
    with pytest.raises(TopologyError, match="not for fluid"):
        simulate(
            "ring",
            Topology.load("dgx_a100"),
            8,
            collective="allreduce",
            model="fluid",
            late={1: 1.0},
        )


def test_the_command_takes_late_ranks():
    words = "simulate allreduce late_rank(late=2,blocks=32) dgx_a100 --size 1G"
    for late, found in (
        ("2=1e-2", "the bound"),
        ("2=10ms", "the bound"),
        ("2=soon", "is not RANK=TIME"),
    ):
        result = CliRunner().invoke(main, [*words.split(), "--late", late])
        assert found in result.output
        assert (result.exit_code == 0) == (found == "the bound")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--late", "2=0.01", "--late", "2=0.5"], "rank 2 is given twice: 0.01 and"),
        (["--late", "2=0.01", "--exact"], "leave out --late or --exact"),
        (["--late", "2=1", "--timeline", "a.json"], "leave out --late or --timeline"),
        (["--late", "2=1", "--model", "fluid"], "not for fluid"),
    ],
)
def test_the_command_ignores_no_late_rank(options, reason):
    words = ["simulate", "allreduce", "ring", "dgx_a100", "--size", "1M"]
    result = CliRunner().invoke(main, words + options)
    assert result.exit_code != 0
    assert reason in " ".join(result.output.split())


@pytest.mark.parametrize("delay", [1.0, 1e9, 1e300])
def test_a_long_delay_costs_no_precision(delay):
    server = Topology.load("dgx1v")
    usual = allreduce("ring", server, SECOND)
    late = allreduce("ring", server, {2: delay})
    assert (late.seconds, late.ratio) == (usual.seconds, usual.ratio)


def test_a_rank_that_is_late_by_nothing_is_on_time():
    server = Topology.load("dgx1v")
    assert allreduce("ring", server, {2: 0.0, 3: 0}) == allreduce("ring", server)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_ranks_that_are_all_late_by_the_same_are_on_time(size):
    server = Topology.load("fully_connected", hosts=size)
    late = dict.fromkeys(range(size), 0.25)
    assert allreduce("ring", server, late) == allreduce("ring", server)
    chosen = [
        select("allreduce", "1M", topology=server, late=one) for one in (late, None)
    ]
    assert len({(one.algorithm, one.seconds, one.bound) for one in chosen}) == 1


def test_if_all_ranks_are_late_only_the_differences_count():
    server = Topology.load("fully_connected", hosts=3)
    found = allreduce("ring", server, {0: 1.0, 1: 1.5, 2: 1.0})
    assert found == allreduce("ring", server, {1: 0.5})
    assert found.late == {1: 0.5}
