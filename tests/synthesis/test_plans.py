"""Plans: proved, run, the same everywhere, and priced as any schedule."""

import os
import subprocess
import sys
from functools import partial
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import (
    AlgorithmNotApplicable,
    ScheduleError,
    Topology,
    select,
    simulate,
    threads,
    verify,
)
from collalgo.cli.main import main
from collalgo.cost.placement import Placement
from collalgo.schedule import trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.prover import Prover
from collalgo.selection.on_topology import TopologyPricer
from collalgo.synthesis.plan import LANES
from collalgo.synthesis.planner import ONE, PEERS, SEVERAL, Form, Planner
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.synthesized import Synthesis, first_way
from collalgo.synthesis.ways import PLANNED
from tests.support.host_networks import network
from tests.support.leisure import at_leisure

WAYS = [(name, way) for name, ways in PLANNED.items() for way in ways]

MACHINES = [
    *(partial(network, size, seed=3) for size in (2, 3, 5, 7, 12)),
    partial(Topology.load, "dgx1v"),
    partial(Topology.load, "mi250x"),
    partial(Topology.load, "dgx_h100", hosts=2),
]


def schedule(planner, collective, way, rounds, peers=ONE):
    form = Form(way, rounds, peers=peers)

    def steps(group):
        yield from planner.steps(collective, form, group.peer(0)).of(group)

    return steps


@pytest.mark.parametrize("make", at_leisure(MACHINES, MACHINES[:-1]))
def test_every_plan_is_proved(make):
    placement = Placement(make())
    planner, size = Planner(placement), placement.size
    for collective, way in WAYS:
        roots = {0, size - 1} if COLLECTIVES[collective].rooted else {0}
        for root in roots:
            for rounds in (1, 7) if size < 16 else (7,):
                steps = schedule(planner, collective, way, rounds)
                proof = verify(steps, size=size, collective=collective, root=root)
                assert proof.lanes <= 2
                assert collective != "allreduce" or proof.consistent


def proved_with_several(planner, rounds, root=0):
    """Prove the plans that combine with several peers in a step."""
    size = planner.pairs.size
    for collective, way in WAYS:
        if not COLLECTIVES[collective].reduces:
            continue
        to = root if COLLECTIVES[collective].rooted else 0
        steps = schedule(planner, collective, way, rounds, SEVERAL)
        proof = verify(steps, size=size, collective=collective, root=to)
        assert proof.lanes <= LANES
        assert collective != "allreduce" or proof.consistent


@pytest.mark.parametrize("size", at_leisure(range(2, 17), {2, 3, 4, 5, 7, 8, 12}))
def test_plans_that_combine_with_several_peers_are_proved(size):
    topology = network(size, extra=2.0, seed=size)
    proved_with_several(Planner(Placement(topology)), 3, root=size // 2)


@pytest.mark.parametrize("name", ["dgx1v", "dgx_a100", "mi250x", "mi300x"])
def test_plans_that_combine_with_several_peers_of_a_server_are_proved(name):
    proved_with_several(Planner(Placement(Topology.load(name))), 8)


def test_plans_of_two_planners_are_the_same():
    topology = network(7, seed=4)
    for collective, way in WAYS:
        first, second = (
            Planner(Placement(topology)).steps(collective, Form(way, 4)).plan
            for _ in range(2)
        )
        assert (first.step == second.step).all()
        for one, other in zip(first.transfers, second.transfers, strict=True):
            assert (one == other).all()


def test_plans_do_not_depend_on_the_order_of_sets():
    code = (
        "import zlib\n"
        "from collalgo import Topology\n"
        "from collalgo.cost.placement import Placement\n"
        "from collalgo.synthesis.planner import Form, Planner\n"
        "topology = Topology.load('dgx_h100', hosts=2)\n"
        "form = Form('trees', 64, peers='several')\n"
        "plan = Planner(Placement(topology)).steps('allreduce', form).plan\n"
        "print(zlib.crc32(plan.step.tobytes() + plan.transfers.target.tobytes()))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("collective", ["allgather", "broadcast", "scatter"])
def test_a_plan_without_one_of_its_transfers_is_found_wrong(collective):
    planner = Planner(Placement(network(5, seed=5)))
    plan = planner.steps(collective, Form(first_way(collective), 4)).plan
    for lost in range(0, len(plan.step), max(1, len(plan.step) // 7)):
        keep = np.arange(len(plan.step)) != lost
        transfers = plan.transfers._make([one[keep] for one in plan.transfers])
        step, lane = plan.step[keep], plan.lane[keep]
        mutant = plan._replace(transfers=transfers, step=step, lane=lane)
        with pytest.raises(ScheduleError):
            proved(mutant, collective)


def test_a_plan_that_forwards_too_early_is_found_wrong():
    planner = Planner(Placement(network(7, extra=0, seed=6)))
    plan = planner.steps("broadcast", Form("trees", 4)).plan
    mutant = plan._replace(step=np.zeros_like(plan.step))
    with pytest.raises(ScheduleError):
        proved(mutant, "broadcast")


def proved(plan, collective):
    steps = PlannedSteps(plan)
    schedules = [trace(steps.of, rank, plan.size) for rank in range(plan.size)]
    return Prover(COLLECTIVES[collective], schedules, 0).prove()


@pytest.mark.parametrize("peers", PEERS)
def test_threads_run_a_plan(peers):
    planner = Planner(Placement(network(5, seed=7)))
    for count in (0, 1, 5, 257):
        threads_run_a_plan(planner, count, peers)


def threads_run_a_plan(planner, count, peers):
    """Run a plan of each kind on a number of elements."""
    size = planner.pairs.size

    def work(comm):
        mine = np.arange(count, dtype=np.int64) + comm.rank
        total = comm.allreduce(
            mine.copy(), algorithm=schedule(planner, "allreduce", "trees", 4, peers)
        )
        blocks = comm.allgather(
            mine, algorithm=schedule(planner, "allgather", "trees", 4)
        )
        copied = comm.broadcast(
            mine.copy(), root=3, algorithm=schedule(planner, "broadcast", "trees", 4)
        )
        return total, blocks, copied

    for total, blocks, copied in threads(work, size):
        assert (total == size * np.arange(count) + sum(range(size))).all()
        for rank in range(size):
            assert (blocks[rank] == np.arange(count) + rank).all()
        assert (copied == np.arange(count) + 3).all()


@pytest.mark.parametrize("name", ["dgx1v", "mi250x"])
def test_the_price_of_a_plan_is_that_of_its_schedule(name):
    topology = Topology.load(name)
    synthesis = Synthesis(Planner(Placement(topology)))
    for (collective, way), peers in product(WAYS, PEERS):
        given = {"way": way, "rounds": 8, "peers": peers}
        row = synthesis.row(collective).with_parameters(given)
        line = synthesis.planner.price(collective, Form(way, 8, peers=peers))
        for nbytes in (0, 1 << 30):
            told = simulate(row.schedule, topology, nbytes, collective=collective)
            assert line.seconds(nbytes) == pytest.approx(told.seconds, rel=1e-9)


def test_the_command_simulates_a_synthesised_schedule():
    words = ["simulate", "broadcast", "synthesized(rounds=64)", "dgx1v", "hosts=2"]
    told = CliRunner().invoke(main, [*words, "--root", "3"])
    assert told.exit_code == 0, told.output
    refused = CliRunner().invoke(main, ["simulate", "scan", "synthesized", "dgx1v"])
    assert refused.exit_code == 1
    assert "synthesized is for allgather" in refused.output


def test_a_plan_is_chosen_where_it_is_the_cheapest_and_only_there():
    topology = Topology.load("dgx1v", hosts=2)
    pricer = TopologyPricer(topology)
    large = select("allgather", 1 << 30, topology=pricer)
    assert large.row.base_name == "synthesized"
    assert large.ratio < 1.1
    assert select("allgather", 8, topology=pricer).row.base_name != "synthesized"
    asked = select("allgather", 8, topology=pricer, algorithm="synthesized")
    assert asked.row.base_name == "synthesized"
    with pytest.raises(AlgorithmNotApplicable, match="the plan is for machine 'other'"):
        select(
            "allgather", 8, topology=pricer, algorithm="synthesized(machine='other')"
        )


@pytest.mark.parametrize("peers", PEERS)
def test_threads_run_a_plan_with_uneven_blocks(peers):
    counts = [3, 0, 257, 1, 40]
    planner = Planner(Placement(network(len(counts), seed=8)))
    whole = np.arange(sum(counts), dtype=np.float64)
    ends = np.cumsum(counts)

    def work(comm):
        first, last = ends[comm.rank] - counts[comm.rank], ends[comm.rank]
        gathered = comm.allgatherv(
            whole[first:last].copy(),
            counts,
            algorithm=schedule(planner, "allgather", "trees", 4),
        )
        summed = comm.reduce_scatter(
            whole.copy(),
            counts=counts,
            algorithm=schedule(planner, "reduce_scatter", "trees", 4, peers),
        )
        return gathered, summed, whole[first:last] * len(counts)

    for gathered, summed, expected in threads(work, len(counts)):
        assert (gathered == whole).all()
        assert (summed == expected).all()
