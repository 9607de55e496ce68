"""Prices on topologies against closed forms, bounds and changes."""

from itertools import cycle

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from collalgo import ALGORITHMS, Topology, TopologyError
from collalgo.cli.main import main
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.fluid import FluidSimulation
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line, rounds
from collalgo.cost.simulation import MODELS, ranks_of, simulate
from collalgo.schedule import recv, send
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.orders import ring_order
from tests.support.clusters import FILES
from tests.support.leisure import at_leisure
from tests.support.random_topologies import renamed

MIB = 1 << 20


MACHINES = {
    "dgx1v": lambda: Topology.load("dgx1v"),
    "dgx_a100": lambda: Topology.load("dgx_a100"),
    "mi250x": lambda: Topology.load("mi250x"),
    "two of four": lambda: Topology.load("dgx1v", hosts=2, nics=2),
    "torus": lambda: Topology.load("torus", dims=(3, 3), latency=1e-6),
    "tree": lambda: Topology.load("fat_tree", k=2, latency=1e-6),
    "ring": lambda: Topology.load("torus", dims=(7,), latency=1e-6),
    "no latency": lambda: Topology.load("torus", dims=(2, 3), latency=0.0),
}


def test_a_step_costs_what_it_would_cost_alone():
    topology = Topology.load("dgx1v", hosts=2, nics=2)
    placement = Placement(topology, link_model=LinkModel(reduction=1e-12))
    for row in ALGORITHMS:
        if row.obstacle(placement.size) is None:
            every = placement.messages(row.schedule)
            priced = rounds(every, placement.routes)
            busy = 0.0
            for step in range(every.steps):
                alone = every.where(every.step == step)
                alone = rounds(alone._replace(step=alone.step * 0), placement.routes)
                busy = busy + alone.busy
                cost = alone.line if len(alone.latency) else Line(0.0, 0.0)
                expected = priced.latency[step], priced.per_byte[step]
                assert cost[:2] == expected, row.name
            assert np.allclose(priced.busy, busy), row.name


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_a_ring_on_a_ring_takes_what_the_formula_says(n, model):
    machine = Topology.load("torus", dims=(n,), bandwidth=10.0, latency=2e-6)
    found = simulate("ring", machine, MIB, collective="allgather", model=model)
    # With two hosts there is one cable, with more each message has its own.
    assert found.seconds == pytest.approx((n - 1) * (2e-6 + MIB / n / 10e9))
    assert len(found.steps) == (n - 1 if model == "rounds" else 0)


@pytest.mark.parametrize(
    "name", at_leisure(MACHINES, {*MACHINES} - {"dgx_a100", "two of four"})
)
def test_no_schedule_is_cheaper_than_the_bound(name):
    """The next algorithm is priced for the other number of bytes."""
    not_below_the_bound(MACHINES[name](), [(8,), (MIB,)])


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_no_schedule_is_cheaper_than_the_bound_for_any_bytes(name):
    not_below_the_bound(MACHINES[name](), [(8, MIB)])


def not_below_the_bound(machine, turns):
    placement = Placement(machine)
    turn = cycle(turns)
    for collective in BOUNDED:
        least = bound(collective, machine)
        for row in ALGORITHMS:
            if row.collective == collective and row.obstacle(placement.size) is None:
                for nbytes, seconds in prices(placement, row, next(turn)):
                    assert seconds >= least.seconds(nbytes) * (1 - 1e-9), row.name


def prices(placement, row, lengths):
    """The times of an algorithm by both models, for some numbers of bytes."""
    line = placement.rounds(placement.fold(row.schedule)).line
    messages = placement.messages(row.schedule)
    for nbytes in lengths:
        whole = nbytes * COLLECTIVES[row.collective].buffers(placement.size)
        yield nbytes, line.seconds(whole)
        yield nbytes, FluidSimulation(messages, whole, placement.routes).run()


def test_a_ring_along_nvlinks_is_twice_as_fast_as_one_by_number():
    machine = Topology.load("dgx1v")
    plain = simulate("ring", machine, 1 << 30, collective="allreduce")
    along = simulate(
        "ring", machine, 1 << 30, collective="allreduce", order=ring_order(machine)
    )
    assert plain.seconds == pytest.approx(2 * along.seconds, rel=1e-3)
    link, _ = along.bottleneck
    assert (link.kind, link.count) == ("nvlink", 2)
    assert along.ratio == pytest.approx(plain.ratio / 2, rel=1e-3)


def test_the_bottleneck_of_a_cluster_is_its_network():
    cluster = Topology.load("dgx1v", hosts=4, nics=2)
    found = simulate("ring", cluster, 1 << 30, collective="allreduce",
                     order=ring_order(cluster))  # fmt: skip
    link, _ = found.bottleneck
    assert link.kind == "network"
    assert "bottleneck: network from" in str(found)
    assert "times the bound of" in str(found)


def test_of_uniform_hosts_the_busiest_link_is_reported():
    star = Topology.read(FILES / "star.yaml")  # its first host receives nothing
    found = simulate("binomial", star, 1 << 20, collective="broadcast")
    received = (1 << 20) / 0.025e9
    busy_links = {w: s for w, s in found.busy.items() if w[0].kind == "network"}
    assert sorted(busy_links.values()) == pytest.approx([received, 2 * received])


quickly = settings(max_examples=15)


rows = st.sampled_from([row for row in ALGORITHMS if row.collective == "allreduce"])


@quickly
@given(rows, st.randoms(use_true_random=False))
def test_another_numbering_of_the_devices_costs_the_same(row, dice):
    machine = Topology.load("dgx1v", hosts=2, nics=1)
    order = list(range(len(machine.devices())))
    dice.shuffle(order)
    other, ids = renamed(machine, order, [f"d{i}" for i in order])
    devices = [ids[id] for id in ranks_of(machine)]
    found = simulate(row.schedule, machine, MIB, collective="allreduce")
    again = simulate(row.schedule, other, MIB, collective="allreduce", order=devices)
    assert again.seconds == pytest.approx(found.seconds)


@quickly
@given(rows, st.sampled_from(["nvlink", "pcie", "smp", "nic"]))
def test_twice_the_bandwidth_is_never_slower(row, kind):
    before = Topology.load("dgx1v", hosts=2, nics=2, **{kind: 10.0})
    after = Topology.load("dgx1v", hosts=2, nics=2, **{kind: 20.0})
    slow = simulate(row.schedule, before, 64 * MIB, collective="allreduce")
    fast = simulate(row.schedule, after, 64 * MIB, collective="allreduce")
    assert fast.seconds <= slow.seconds * (1 + 1e-9)


def test_reductions_cost_what_the_link_model_says():
    machine = Topology.load("torus", dims=(4,), bandwidth=10.0, latency=0.0)
    free = simulate("ring", machine, MIB, collective="allreduce")
    paid = simulate(
        "ring",
        machine,
        MIB,
        collective="allreduce",
        link_model=LinkModel(reduction=1e-9),
    )
    assert paid.seconds - free.seconds == pytest.approx(3 * MIB / 4 * 1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_barrier_costs_latency_only(model):
    machine = Topology.load("torus", dims=(8,), bandwidth=10.0, latency=1e-6)
    found = simulate("dissemination", machine, 0, collective="barrier", model=model)
    assert found.seconds == pytest.approx((1 + 2 + 4) * 1e-6)


def test_messages_share_a_link_fairly():
    """Two messages share a cable until the shorter one is complete."""

    def two(group):
        if group.rank < 2:
            chunk = group.chunk(0) if group.rank else group.chunks(0, 3)
            yield send(3 - group.rank, chunk)
        else:
            chunk = group.chunks(0, 3) if group.rank == 3 else group.chunk(0)
            yield recv(3 - group.rank, chunk)

    machine = Topology("narrow")
    for id in ("h0", "h1", "h2", "h3"):
        machine.add(id, "host")
    a, b = machine.add("a", "switch"), machine.add("b", "switch")
    machine.link(a, b, "network", 1.0)
    for id, switch in (("h0", a), ("h1", a), ("h2", b), ("h3", b)):
        machine.link(id, switch, "network", 100.0, latency=0.0)
    placement = Placement(machine)
    messages = placement.messages(two)
    seconds = FluidSimulation(messages, 16e9, placement.routes).run()
    assert seconds == pytest.approx(16e9 / 4 * 4 / 1e9)


def test_what_cannot_be_simulated_is_refused():
    machine = Topology.load("dgx1v")
    with pytest.raises(TopologyError, match="a device of its own"):
        simulate("ring", machine, 1, collective="allgather", order=["host0/gpu0"] * 2)
    with pytest.raises(TopologyError, match="dgx1v has no device 'gpu0'"):
        simulate("ring", machine, 1, collective="allgather", order=["gpu0"])
    apart = Topology("apart")
    for i in range(2):
        apart.add(f"host{i}", "host")
    with pytest.raises(TopologyError, match="host0 cannot reach host1"):
        simulate("direct", apart, 1, collective="allgather")


def test_the_command_prints_the_time_and_the_bottleneck():
    words = [
        "simulate",
        "allreduce",
        "ring",
        "dgx1v",
        "--size",
        "1G",
        "--order",
        "ring",
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "37.6 ms (model: rounds)" in result.output
    assert "(50 GB/s)" in result.output


@pytest.mark.parametrize(
    "name",
    at_leisure(
        ["torus_2d", "torus_3d", "mesh_2d", "hierarchical"],
        {"hierarchical"},
    ),
)
def test_a_million_ranks_need_no_dimensions(name):
    words = ["simulate", "allreduce", name, "dgx1v", "hosts=131072"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "on 1048576 ranks" in result.output


def test_the_command_prices_a_million_ranks():
    words = ["simulate", "allreduce", "torus_2d(dims=(1024, 1024))", "dgx1v"]
    result = CliRunner().invoke(main, [*words, "hosts=131072"])
    assert result.exit_code == 0, result.output
    assert "on 1048576 ranks: 183 ms" in result.output
    result = CliRunner().invoke(main, [*words, "hosts=131072", "--model", "fluid"])
    assert "131072 hosts are priced by one that" in result.output


def without_ranks():
    """Two switches."""
    topology = Topology("no ranks")
    for name in ("a", "b"):
        topology.add(name, "switch")
    topology.link("a", "b", "network", 1.0)
    return topology


def test_a_machine_without_devices_for_ranks_is_refused():
    with pytest.raises(
        TopologyError, match="no ranks has no GPUs, cores, CPUs, hosts or NICs"
    ):
        simulate("ring", without_ranks(), MIB, collective="allreduce")


def test_former_names_work_with_a_warning():
    machine, slow = Topology.load("dgx1v"), LinkModel(reduction=1e-3)
    with pytest.warns(DeprecationWarning, match="link_model"):
        found = simulate("ring", machine, MIB, collective="allreduce", figures=slow)
    assert found.seconds > 1
    with pytest.warns(DeprecationWarning, match="bottlenecks"):
        assert found.in_the_way == found.bottlenecks
