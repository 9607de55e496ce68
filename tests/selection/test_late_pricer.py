"""Choices for calls to which ranks come late: by the time from the last arrival on."""

import pytest
from click.testing import CliRunner

from collalgo import AlgorithmNotApplicable, Topology, TopologyError, select, simulate
from collalgo.cli.main import main
from collalgo.cost.lower_bound import AS_LOW
from collalgo.selection.on_topology import TopologyPricer

GIB = 1 << 30


def on_hosts(size):
    return Topology.load("fully_connected", hosts=size, latency=1e-6)


@pytest.mark.parametrize("size", [3, 5, 8])
def test_the_price_of_each_candidate_is_what_simulate_says(size):
    topology, late = on_hosts(size), {size - 1: 0.5, 0: 0.01}
    found = select("allreduce", GIB, topology=topology, late=late)
    named = [one for one in found.able if one.row.base_name != "synthesized"]
    named = [one for one in named if not (one.order or one.row.hierarchical)]
    for one in named[:: max(1, len(named) // 12)]:
        how = {"collective": "allreduce", "late": late}
        again = simulate(one.algorithm, topology, GIB, **how)
        assert one.seconds == pytest.approx(again.seconds), one.algorithm


def test_an_algorithm_for_a_late_rank_competes_by_its_price():
    topology = Topology.load("dgx_a100")
    much = select("allreduce", GIB, topology=topology, late={3: 1.0})
    assert much.algorithm.startswith(("late_rank(late=3, ", "late_broadcast(late=3, "))
    assert much.ratio < 1.1
    assert "late: rank 3 by 1 s" in much.explain()
    little = select("allreduce", GIB, topology=topology, late={3: 1e-6})
    assert not little.algorithm.startswith("late_")
    on_time = select("allreduce", GIB, topology=topology)
    assert much.seconds < 0.7 * on_time.seconds
    assert little.seconds <= on_time.seconds


def test_more_delay_never_costs_more():
    pricer = TopologyPricer(Topology.load("dgx1v"))
    delays = (0.0, 1e-4, 1e-3, 1e-2, 1.0)
    seconds = [
        select("allreduce", GIB, topology=pricer, late={5: delay}).seconds
        for delay in delays
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == select("allreduce", GIB, topology=pricer).seconds


@pytest.mark.parametrize("nbytes", [8, 1 << 16, 1 << 24, GIB])
@pytest.mark.parametrize("collective", ["allreduce", "allgather", "broadcast"])
def test_no_choice_is_below_its_bound(collective, nbytes):
    late = {1: 1.0}
    found = select(collective, nbytes, topology=on_hosts(5), late=late)
    assert found.seconds <= select(collective, nbytes, topology=on_hosts(5)).seconds
    if collective == "allreduce":
        assert found.ratio >= 1 - AS_LOW
    else:
        assert found.bound is None


def test_late_ranks_of_other_calls_are_refused():
    with pytest.raises(AlgorithmNotApplicable, match="leave late out"):
        select("allreduce", 8, size=4, late={1: 1.0})
    with pytest.raises(AlgorithmNotApplicable, match="leave late out"):
        counts = [[0, 1], [1, 0]]
        select("alltoallv", counts=counts, topology=on_hosts(2), late={1: 1.0})
    with pytest.raises((ValueError, TopologyError), match="late rank"):
        select("allreduce", 8, topology=on_hosts(3), late={3: 1.0})
    with pytest.raises(TypeError, match="select: late is"):
        select("allreduce", 8, topology=on_hosts(3), late=2)


def test_the_command_chooses_for_late_ranks():
    words = ["select", "allreduce", "1G", "dgx_a100", "--late", "3=1"]
    found = CliRunner().invoke(main, words)
    assert "(late=3, blocks=" in found.output
    assert "the time starts when rank 3 arrives" in " ".join(found.output.split())
    for more in (["--peers"], ["--without", "gpu1"], ["--degraded", "gpu1=0.5"]):
        found = CliRunner().invoke(main, words + more)
        assert found.exit_code == 2
        assert "leave out --late or" in found.output
