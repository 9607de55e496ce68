"""Choices for calls to which ranks come late: by the time from the last arrival on."""

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo import AlgorithmNotApplicable, Topology, TopologyError, select, simulate
from collalgo.algorithms import ring
from collalgo.algorithms.table import named
from collalgo.cli.main import main
from collalgo.cost.lower_bound import AS_LOW
from collalgo.selection.late_pricer import late_pricer
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.prices import SIZES
from tests.support.leisure import at_leisure

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
    delays = (0.0, 1e-3, 1.0)
    seconds = [
        select("allreduce", GIB, topology=pricer, late={5: delay}).seconds
        for delay in delays
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == select("allreduce", GIB, topology=pricer).seconds


@pytest.mark.parametrize("nbytes", at_leisure([8, 1 << 16, 1 << 24, GIB], {8, GIB}))
@pytest.mark.parametrize("collective", ["allreduce", "allgather", "broadcast"])
def test_no_choice_is_below_its_bound(collective, nbytes):
    late = {1: 1.0}
    found = select(collective, nbytes, topology=on_hosts(5), late=late)
    assert found.seconds <= select(collective, nbytes, topology=on_hosts(5)).seconds
    if collective == "allreduce":
        assert found.ratio >= 1 - AS_LOW
    else:
        assert found.bound is None


@pytest.mark.parametrize("dims", at_leisure([((5,),), ((2, 3),)], {((5,),)}))
@pytest.mark.parametrize("late", [{1: 0.01}, {4: 0.01}, {2: 1e-4, 3: 1e-5}])
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "allgather"])
def test_the_cheapest_candidates_of_all_sizes_are_kept(collective, late, dims):
    torus = Topology.load("torus", dims=dims)
    kept, all_ = (
        [one.price.seconds(SIZES) for one in candidates]
        for candidates in _kept_and_all(torus, collective, late)
    )
    assert np.min(kept, axis=0) == pytest.approx(np.min(all_, axis=0), rel=1e-8)


def _kept_and_all(topology, collective, late):
    """The candidates after pruning, and all."""
    for how in ("prune", "priced"):
        pricer = late_pricer(TopologyPricer(topology), late)
        able, _ = pricer.applicable(collective)
        yield pricer.prune(able, SIZES) if how == "prune" else pricer.priced(able)


def test_an_algorithm_of_a_user_with_a_parameter_late_is_one_of_all():
    @collalgo.algorithm("allreduce", "mine")
    def mine(group, late=False):
        yield from ring.allreduce(group)

    found = select("allreduce", GIB, topology=on_hosts(4), late={2: 0.01})
    assert "mine" in {one.row.base_name for one in found.able}


def test_an_algorithm_for_a_late_rank_with_its_parameters_is_one_candidate():
    name, late = "late_rank(late=1, blocks=8)", {2: 0.01}
    pricer = late_pricer(TopologyPricer(on_hosts(4)), late)
    assert len(pricer.candidates([named("allreduce", name)])) == 1
    found = select("allreduce", GIB, topology=pricer, algorithm=name)
    assert found.algorithm == name


def test_late_ranks_of_other_calls_are_refused():
    with pytest.raises(AlgorithmNotApplicable, match="late needs a topology"):
        select("allreduce", 8, size=4, late={1: 1.0})
    with pytest.raises(
        AlgorithmNotApplicable, match="alltoallv has no prices for late ranks"
    ):
        counts = [[0, 1], [1, 0]]
        select("alltoallv", counts=counts, topology=on_hosts(2), late={1: 1.0})
    with pytest.raises((ValueError, TopologyError), match="late rank"):
        select("allreduce", 8, topology=on_hosts(3), late={3: 1.0})
    for wrong in (2, 0, [], "", False):
        with pytest.raises(TypeError, match="select: late is"):
            select("allreduce", 8, topology=on_hosts(3), late=wrong)
    assert select("allreduce", 8, size=4, late={}).size == 4


def test_the_command_chooses_for_late_ranks():
    words = ["select", "allreduce", "1G", "dgx_a100", "--late", "3=1"]
    found = CliRunner().invoke(main, words)
    assert "(late=3, blocks=" in found.output
    assert "the time starts when rank 3 arrives" in " ".join(found.output.split())
    for more in (
        ["--peers"],
        ["--without", "gpu1"],
        ["--degraded", "gpu1=0.5"],
        ["--without", "x"],
    ):
        found = CliRunner().invoke(main, words + more)
        assert found.exit_code == 2
        assert "leave out --late or" in found.output
