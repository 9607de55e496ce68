"""Ranks that come late: only the steps in which they take part wait for them."""

import pytest
from click.testing import CliRunner

from collalgo import Topology, TopologyError, simulate
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


def test_late_ranks_that_cannot_be_are_refused():
    server = Topology.load("dgx_a100")
    for late, reason in (
        ({8: 1.0}, "late rank 8 is not one of the 8 ranks"),
        ({1: -1.0}, "pass seconds from 0"),
        ({1: float("nan")}, "pass seconds from 0"),
    ):
        with pytest.raises(TopologyError, match=reason):
            allreduce("ring", server, late)
    with pytest.raises(TopologyError, match="not for fluid"):
        simulate(
            "ring", server, 8, collective="allreduce", model="fluid", late={1: 1.0}
        )


def test_the_command_takes_late_ranks():
    words = "simulate allreduce late_rank(late=2,blocks=32) dgx_a100 --size 1G"
    for late, found in (("2=1e-2", "the bound"), ("2=soon", "is not RANK=SECONDS")):
        result = CliRunner().invoke(main, [*words.split(), "--late", late])
        assert found in result.output
        assert (result.exit_code == 0) == (found == "the bound")
