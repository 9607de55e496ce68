"""The choice of algorithms on topologies."""

from functools import cache
from importlib.resources import files
from itertools import pairwise, product

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import Topology, algorithm, select, send, simulate
from collalgo.cli.main import main
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.orders import ring_order
from tests.support.leisure import at_leisure

GIB = 1 << 30

#: The prices of a machine are the same for every size and collective.
on_dgx1v = cache(lambda: TopologyPricer(Topology.load("dgx1v")))
on_torus = cache(lambda dims: TopologyPricer(Topology.load("torus", dims=dims)))


@pytest.mark.parametrize("nbytes", [1 << 10, 1 << 20, GIB])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_choice_is_the_cheapest_and_no_better_than_the_bound(collective, nbytes):
    pricer = on_dgx1v()
    machine = pricer.topology
    chosen = select(collective, nbytes, topology=pricer)
    able = [c for c in chosen.candidates if c.obstacle is None]
    assert chosen.seconds == min(c.seconds for c in able)
    if chosen.bound_seconds:
        assert chosen.seconds >= chosen.bound_seconds
    again = simulate(
        able[0].row.schedule, machine, nbytes, collective=collective,
        order=ring_order(machine) if able[0].order else None,
    )  # fmt: skip
    assert again.seconds == pytest.approx(chosen.seconds)


@pytest.mark.parametrize("collective", ["allreduce", "allgather"])
def test_orders_of_one_price_are_listed_once(collective):
    chosen = select(collective, 1 << 20, topology=Topology.load("dgx1v", hosts=2))
    prices = [(c.algorithm, c.seconds) for c in chosen.able]
    assert len(prices) > len(set(prices))
    listed = [(c.algorithm, c.seconds) for c in chosen.distinct]
    assert sorted(listed) == sorted(set(prices))
    assert chosen.distinct[0] is chosen.choice
    lines = chosen.explain(None).replace(", ranks along the ring", "").splitlines()
    rows = [" ".join(line.split()) for line in lines if line.endswith(" us")]
    assert len(rows) == len(listed)


def price_of(pricer, chosen, name):
    """The seconds of the best variant of an algorithm, beside a choice."""
    asked = chosen.collective, chosen.nbytes
    return select(*asked, topology=pricer, algorithm=name).seconds


def best_of_table(pricer, chosen):
    """The best algorithm of the table, beside a choice, and its seconds."""
    rows, _ = pricer.applicable(chosen.collective)
    rows = [row for row in rows if row.base_name != "synthesized"]
    found = pricer.prune(rows, np.array([float(chosen.nbytes)]))
    best = min(found, key=lambda one: one.price.seconds(chosen.nbytes))
    return best.row.base_name, best.price.seconds(chosen.nbytes)


@pytest.mark.parametrize("nics", [1, 2, 4])
def test_between_hosts_what_keeps_to_hosts_beats_a_flat_ring(nics):
    cluster = TopologyPricer(Topology.load("dgx1v", hosts=4, nics=nics))
    chosen = select("allreduce", 1 << 28, topology=cluster)
    ring = price_of(cluster, chosen, "ring")
    assert chosen.seconds < ring
    assert price_of(cluster, chosen, "torus_2d") < ring


@pytest.mark.parametrize(
    ("collective", "names"),
    [
        ("allreduce", ("torus_2d", "hierarchical")),
        ("allgather", ("multi_leader",)),
    ],
)
def test_rails_use_a_ring_of_hosts_both_ways(collective, names):
    path = files("collalgo.bench.cluster") / "files/ring.yaml"
    ring = TopologyPricer(Topology.read(path))
    chosen = select(collective, 1 << 24, topology=ring)
    for name in names:
        assert price_of(ring, chosen, name) < 1.02 * chosen.bound_seconds


SPREAD = ("allreduce", "allgather", "reduce_scatter")
TORI = ((4, 4), (5, 5), (4, 4, 4), (3, 3, 3))


@pytest.mark.parametrize(
    ("dims", "collective"),
    at_leisure(
        product(TORI, SPREAD),
        {*product(((4, 4), (3, 3, 3)), SPREAD), (TORI[1], SPREAD[0])},
    ),
)
def test_tori_use_all_links_of_a_torus_with_equal_axes_both_ways(dims, collective):
    chosen = select(collective, GIB, topology=(torus := on_torus(dims)))
    all_ways = price_of(torus, chosen, f"torus_{len(dims)}d_all_ways")
    assert all_ways < min(1.001 * chosen.seconds, 1.02 * chosen.bound_seconds)


@pytest.mark.parametrize("dims", [(3, 5), (2, 8), (4, 8)])
def test_tori_run_along_the_axes_of_the_links(dims):
    torus = on_torus(dims)
    chosen = select("allreduce", GIB, topology=torus, algorithm="torus_2d_all_ways")
    assert dict(chosen.row.parameters)["dims"] == dims
    assert chosen.seconds < 0.95 * price_of(torus, chosen, "bidirectional_ring")


@pytest.mark.parametrize(
    "collective", at_leisure(["broadcast", "reduce"], {"broadcast"})
)
def test_trees_use_all_links_of_a_torus_and_are_not_tried_elsewhere(collective):
    for dims in ((3, 3), (3, 5), (8, 3), (4, 8)):
        chosen = select(collective, GIB, topology=on_torus(dims))
        best, seconds = best_of_table(on_torus(dims), chosen)
        assert best == "torus_2d_trees"
        assert chosen.seconds <= seconds < 1.1 * chosen.bound_seconds
    star = TopologyPricer(Topology.load("dgx_h100", hosts=2))
    tried = star.candidates(star.applicable(collective)[0])
    assert "torus_2d_trees" not in {one.row.base_name for one in tried}


GPUS = [*product(["dgx_a100", "dgx_h100", "mi300x"], ["allgather", "reduce_scatter"])]


@pytest.mark.parametrize(("name", "collective"), at_leisure(GPUS, GPUS[::5]))
def test_each_gpu_swaps_by_its_nic_what_its_host_is_to_know(name, collective):
    cluster = TopologyPricer(Topology.load(name, hosts=4))
    chosen = select(collective, GIB, topology=cluster)
    best, seconds = best_of_table(cluster, chosen)
    assert best == "bcube"
    assert chosen.seconds <= seconds < price_of(cluster, chosen, "ring") / 2


def test_small_messages_take_few_steps_and_large_ones_little_traffic():
    cluster = TopologyPricer(Topology.load("dgx1v", hosts=4, nics=4))
    ring, doubling = (
        [
            select("allreduce", nbytes, topology=cluster, algorithm=name).seconds
            for nbytes in (1 << 10, GIB)
        ]
        for name in ("ring", "recursive_doubling")
    )
    assert doubling[0] < ring[0] / 5
    assert ring[1] < doubling[1]


def test_many_hosts_are_a_square_in_which_all_of_a_line_talk_to_all():
    cluster = UniformCluster.load("dgx_a100", hosts=64)
    found = select("allreduce", 1 << 18, topology=cluster)
    assert found.algorithm == "bcube(dims=(8, 8, 8))"
    grids = {
        candidate.algorithm: candidate.seconds
        for candidate in found.able
        if candidate.row.base_name == "bcube"
    }
    assert grids["bcube(dims=(8, 8, 8))"] < grids["bcube(dims=(8, 64))"]
    few = select(
        "allreduce", 1 << 18, topology=UniformCluster.load("dgx_a100", hosts=8)
    )
    assert [
        c.algorithm for c in few.able if c.row.base_name == "bcube" and not c.order
    ] == [
        "bcube(dims=(8, 8))",
        "bcube(dims=(8, 8), segments=4)",
        "bcube(dims=(8, 8), segments=16)",
        "bcube(dims=(8, 8), segments=64)",
    ]


def test_rings_along_all_nvlinks_reach_the_bound():
    chosen = select("allreduce", GIB, topology=on_dgx1v())
    assert chosen.algorithm.startswith("multi_ring(cycles=")
    assert len(chosen.parameters["cycles"]) == 6
    assert chosen.ratio == pytest.approx(1, rel=0.01)
    assert "multi_ring(cycles=6 of 8)" in chosen.explain()
    ring = price_of(on_dgx1v(), chosen, "ring")
    assert ring == pytest.approx(3 * chosen.seconds, rel=0.02)


def test_reproducible_means_in_the_order_of_the_ranks():
    machine = Topology.load("dgx_a100")
    chosen = select("allreduce", 1 << 20, topology=machine, reproducible=True)
    assert chosen.row.keeps_rank_order


def test_a_choice_needs_ranks_or_a_topology():
    with pytest.raises(ValueError, match="the number of ranks, or a topology"):
        select("allreduce", 8)
    with pytest.raises(TypeError, match=r"'two.yaml', of type str; .*Topology.read"):
        select("allreduce", 8, topology="two.yaml")
    result = CliRunner().invoke(main, ["select", "allreduce", "8"])
    assert result.exit_code == 2


def test_the_command_chooses_on_a_topology():
    words = ["select", "allreduce", "1G", "--topology", "dgx1v", "hosts=2", "nics=1"]
    words.append("--all")
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "on 16 ranks" in result.output
    assert "hierarchical(hosts=(8, 8))" in result.output


WIDENED = [*product(["allgather", "broadcast", "allreduce"], ["nvlink", "pcie", "nic"])]


@pytest.mark.parametrize(("collective", "kind"), at_leisure(WIDENED, WIDENED[:5:4]))
def test_more_bandwidth_never_makes_the_choice_slower(collective, kind):
    chosen = []
    for speed in (8.0, 12.0, 30.0, 100.0):
        machine = Topology.load("dgx1v", hosts=2, nics=4, **{kind: speed})
        prospect = TopologyPricer(machine)
        sizes = (1 << 10, 1 << 20, GIB)
        found = [select(collective, n, topology=prospect) for n in sizes]
        chosen.append([(one, best_of_table(prospect, one)[1]) for one in found])
    for slow, fast in pairwise(chosen):
        for (a, of_a), (b, of_b) in zip(slow, fast, strict=True):
            assert of_b <= of_a * (1 + 1e-9)
            # Synthesised schedules are nearly, not always, the best.
            assert b.seconds <= a.seconds * 1.05


def test_a_look_up_finds_what_is_chosen():
    prospect = TopologyPricer(Topology.load("dgx1v", hosts=2, nics=2))
    known = prospect.choices("allreduce")
    assert len(known.breaks) > 2
    for nbytes in (8, 1 << 12, 1 << 17, 1 << 22, GIB):
        chosen = select("allreduce", nbytes, topology=prospect)
        assert known.at(nbytes).price.seconds(nbytes) == pytest.approx(chosen.seconds)


def test_what_a_user_adds_is_proved_before_it_is_priced():
    @algorithm("broadcast", "hasty", obstacle=lambda n: "is shy" if n == 3 else None)
    def hasty(group):
        yield send(group.right, group.whole)

    chosen = select("broadcast", 8, topology=Topology.load("dgx1v"))
    (found,) = [c for c in chosen.candidates if c.algorithm == "hasty"]
    assert found.obstacle.startswith("is wrong: ")
    chosen = select("broadcast", 8, size=3)
    (found,) = [c for c in chosen.candidates if c.algorithm == "hasty"]
    assert found.obstacle == "is shy"


@pytest.mark.parametrize("nics", at_leisure([2, 4], {2}))
def test_an_order_of_the_ranks_of_a_host_is_run_on_all_hosts(nics):
    topology = Topology.load("dgx1v", hosts=3, nics=nics)
    prospect = TopologyPricer(topology)
    rows, _ = prospect.applicable("allreduce")
    ordered = [one for one in prospect.priced(rows) if one.order]
    assert any(one.row.name.startswith("multi_ring(cycles=") for one in ordered)
    for one in ordered:
        if dict(one.row.parameters).get("segments", 1) <= 4:
            runs = prospect.runnable(one).schedule
            again = simulate(runs, topology, 1 << 20, collective="allreduce")
            expected = one.price.seconds(1 << 20)
            assert again.seconds == pytest.approx(expected), one.row.name


def hosts_of_which_one_is(slow):
    """Four hosts of two cores, one with a NIC of half the bandwidth."""
    topology = Topology("one slow NIC")
    topology.add("switch", "switch")
    for i in range(4):
        host = f"h{i}"
        cpu = topology.add(f"{host}/cpu", "cpu", host=host)
        nic = topology.add(f"{host}/nic", "nic", host=host)
        for core in range(2):
            one = topology.add(f"{host}/core{core}", "core", host=host)
            topology.link(one, cpu, "smp", 4.0)
        topology.link(nic, cpu, "pcie")
        topology.link(nic, "switch", "network", 0.0125 if i == slow else 0.025)
    return topology


@pytest.mark.parametrize("slow", range(4))
def test_a_slow_host_is_the_end_of_a_pipeline(slow):
    topology = hosts_of_which_one_is(slow)
    chosen = select("allreduce", 1 << 26, topology=topology, algorithm="pipeline")
    assert chosen.algorithm == "pipeline(segments=256)"
    assert chosen.choice.order == ("" if slow in (0, 3) else "narrow")
    assert chosen.ratio < 1.05
    words = "the narrowest hosts last"
    assert (words in chosen.choice.words) == (slow in (1, 2))
    prospect = TopologyPricer(topology)
    runs = prospect.runnable(chosen.decision.candidate)
    again = simulate(runs.schedule, topology, 1 << 26, collective="allreduce")
    assert again.seconds == pytest.approx(chosen.seconds)
