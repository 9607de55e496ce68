"""Bounds against published values, against all cuts, and under changes."""

import random
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise
from math import isclose

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from collalgo import Topology, TopologyError, select
from collalgo.cli.main import main
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.cuts import Network
from collalgo.cost.link_model import DEFAULTS
from collalgo.cost.machine import with_assumed_speeds
from collalgo.cost.uniform_cluster import UniformCluster, port_bound
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.model import FAST, Kind, LinkKind
from tests.support.leisure import at_leisure
from tests.support.random_topologies import renamed

quickly = settings(max_examples=40)

MOVING = ("allgather", "reduce_scatter", "broadcast", "reduce", "gather",
          "scatter", "alltoall", "allreduce")  # fmt: skip


def grid(*dims, name="torus"):
    return Topology.load(name, dims=dims, bandwidth=1.0)


#: GB/s of an allgather at best, as published for ForestColl and in closed form.
GOLDEN = [
    (lambda: Topology.load("dgx1v"), FAST, 150 * 8 / 7),
    (lambda: Topology.load("dgx_a100"), FAST, 300 * 8 / 7),
    (lambda: Topology.load("dgx_h100"), FAST, 450 * 8 / 7),
    (lambda: Topology.load("dgx_a100", hosts=2, pcie=25.0), None, 346.667),
    (lambda: grid(8), None, 16 / 7),
    (lambda: grid(4, 4), None, 4 * 16 / 15),
    (lambda: grid(3, 4, 5), None, 6 * 60 / 59),
    (lambda: grid(3, 3, name="mesh"), None, 2 * 9 / 8),
    (lambda: grid(5, 5, name="mesh"), None, 2 * 25 / 24),
    (lambda: Topology.load("dgx1v", hosts=2, nics=1, pcie=16.0), None, 25.0),
    (lambda: Topology.load("dgx1v", hosts=2, nics=2, pcie=16.0), None, 50.0),
    (
        lambda: Topology.load("dgx1v", hosts=4, nics=4, pcie=16.0),
        None,
        4 * 4 * 12.5 / 3,
    ),
]


@pytest.mark.parametrize(("machine", "kinds", "expected"), GOLDEN)
def test_an_allgather_is_as_fast_as_published(machine, kinds, expected):
    found = bound("allgather", machine(), kinds=kinds)
    assert found.bandwidth == pytest.approx(expected, rel=1e-5)
    assert found.exact


def test_links_that_no_route_takes_do_not_count_in_a_rack():
    """The links of 72 GPUs to their CPUs lead to no other GPU."""
    rack = Topology.load("gb200_nvl72")
    for collective in ("broadcast", "reduce"):
        assert bound(collective, rack).bandwidth == pytest.approx(18 * 50)
    for collective in ("allgather", "gather"):
        assert bound(collective, rack).bandwidth == pytest.approx(900 * 72 / 71)


def test_an_allreduce_of_a_dgx1v_takes_two_allgathers():
    machine = Topology.load("dgx1v")
    once = bound("allgather", machine, kinds=FAST).per_byte
    assert bound("allreduce", machine, kinds=FAST).per_byte == 2 * once


def test_the_witness_is_described():
    cluster = Topology.load("dgx1v", hosts=4, nics=2)
    found = bound("allgather", cluster)
    told = "host0 (8 of 32 ranks) can receive at most 25 GB/s over 2 network links"
    assert found.reason.startswith(told)
    told = bound("reduce_scatter", cluster).reason
    assert told.startswith("host0 (8 of 32 ranks) can send at most 25 GB/s")
    one = bound("broadcast", Topology.load("dgx1v"), kinds=FAST)
    assert one.reason.startswith("host0/gpu1 (1 of 8 ranks) can receive at most 150")
    pair = bound("allgather", Topology.load("mesh", dims=(2,)))
    assert pair.reason.endswith("over 1 network link (host0 - host1)")


@st.composite
def networks(draw):
    """A few hosts and switches with cables between most of them."""
    topology = Topology("random", "a test")
    for i in range(draw(st.integers(2, 5))):
        topology.add(f"host{i}", Kind.HOST)
    for i in range(draw(st.integers(0, 2))):
        topology.add(f"switch{i}", Kind.SWITCH)
    ids = [device.id for device in topology.devices()]
    for a, b in pairwise(ids):  # keeps it connected
        topology.link(a, b, LinkKind.NETWORK, draw(st.integers(1, 9)))
    for a, b in combinations(ids, 2):
        speed = draw(st.integers(0, 9))
        if speed:
            topology.link(a, b, LinkKind.NETWORK, speed)
    return topology


def cuts(network):
    nodes = list(network.capacities)
    for size in range(1, len(nodes)):
        for part in combinations(nodes, size):
            inside = network.ranks_in(part)
            if inside and inside < len(network.ranks):
                yield frozenset(part), inside, network.leaving(part)


@quickly
@given(networks(), st.data())
def test_a_bound_is_that_of_the_worst_of_all_cuts(topology, data):
    network = Network(topology)
    every = partial(bound, kinds=LinkKind)  # whatever the routes of messages
    n = len(network.ranks)
    worst = max(Fraction(inside) / out for _, inside, out in cuts(network))
    assert every("allgather", topology).per_byte == worst / n
    root = data.draw(st.integers(0, n - 1))
    at = network.ranks[root]
    least = min(out for part, _, out in cuts(network) if at in part)
    assert every("broadcast", topology, root).per_byte == 1 / least
    away = max(Fraction(i) / out for part, i, out in cuts(network) if at not in part)
    assert every("scatter", topology, root).per_byte == away / n
    crossing = max(Fraction(i * (n - i), n) / out for _, i, out in cuts(network))
    links, carried = network.crossings()
    most = max(crossing, Fraction(links, n) / carried)
    assert every("alltoall", topology).per_byte <= most
    slowest = max(1 / out for _, _, out in cuts(network))
    assert every("allreduce", topology).per_byte >= slowest


@pytest.mark.parametrize("dims", [(3, 3), (5, 5), (7, 7), (3, 3, 3)])
def test_blocks_of_an_alltoall_cross_several_links_of_a_torus(dims):
    """The mean distance along an axis of odd length k is (k - 1 / k) / 4 links."""
    (side,) = set(dims)
    topology = grid(*dims)
    found = bound("alltoall", topology)
    crossed = len(dims) * Fraction(side * side - 1, 4 * side)
    assert found.per_byte == crossed / (2 * len(dims))
    assert "network links on average" in found.reason
    if len(dims) == 2:
        chosen = select("alltoall", 1 << 30, topology=topology)
        assert chosen.seconds < 1.01 * chosen.bound_seconds


@quickly
@given(networks(), st.randoms(use_true_random=False), st.sampled_from(MOVING))
def test_another_numbering_gives_the_same_bound(topology, dice, collective):
    order = list(range(len(topology.devices())))
    dice.shuffle(order)
    other, ids = renamed(topology, order, [f"d{i}" for i in order])
    root = Network(topology).ranks[0]
    place = Network(other).ranks.index(ids[root])
    found = bound(collective, topology)
    again = bound(collective, other, place)
    if collective == "alltoall":  # its halves depend on the numbers of the hosts
        assert again.per_byte > 0
    else:  # linear programmes are solved in floating point
        assert isclose(found.per_byte, again.per_byte, rel_tol=1e-8)


@quickly
@given(networks(), st.data(), st.sampled_from(MOVING))
def test_a_faster_link_never_makes_a_bound_slower(topology, data, collective):
    before = bound(collective, topology, kinds=LinkKind).per_byte
    link = data.draw(st.sampled_from(topology.links))
    topology.link(*link.ends, link.kind, data.draw(st.integers(1, 20)))
    assert bound(collective, topology, kinds=LinkKind).per_byte <= before


@pytest.mark.parametrize("collective", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("name", ["dgx1v", "dgx_h100", "mi250x"])
def test_links_beside_all_routes_do_not_count(name, collective):
    machine = Topology.load(name)
    fast = bound(collective, machine, kinds=FAST)
    assert bound(collective, machine).per_byte >= fast.per_byte
    assert bound(collective, machine, kinds=LinkKind).per_byte < fast.per_byte
    hosts = Topology.load(name, hosts=2)
    least = bound(collective, hosts, kinds=LinkKind).per_byte
    assert least <= bound(collective, hosts).per_byte < 2 * least


CLUSTERS = {
    "one NIC": ("dgx1v", {"nics": 1}),
    "rails": ("dgx_a100", {"rail": True}),
    "tied NICs": ("server8", {"nics": 8}),
}


@pytest.mark.parametrize("hosts", at_leisure([1, 2, 3, 4], {3}))
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_has_the_bounds_of_all_its_hosts(name, hosts):
    machine, parameters = CLUSTERS[name]
    topology = Topology.load(machine, hosts=hosts, **parameters)
    cluster = UniformCluster.load(machine, hosts=hosts, **parameters)
    for collective in BOUNDED:
        root = cluster.size - 1 if COLLECTIVES[collective].rooted else 0
        found = bound(collective, cluster, root)
        expected = bound(collective, topology, root)
        assert found.latency == expected.latency
        if "linear programme" in expected.reason:
            # Of contracted hosts only the cuts are known.
            assert found.per_byte <= expected.per_byte
            continue
        assert found.per_byte == expected.per_byte, (collective, root)
        assert found.exact == expected.exact


def test_a_million_ranks_have_bounds():
    cluster = UniformCluster.load("dgx1v", hosts=1 << 17, nics=4)
    found = bound("allgather", cluster, (1 << 20) - 1)
    assert found.bandwidth == pytest.approx(4 * 12.5, rel=1e-4)
    assert "(8 of 1048576 ranks) can receive at most 50 GB/s" in found.reason
    with pytest.raises(
        TopologyError, match="root 1048576 is out of range; there are 1048576"
    ):
        bound("broadcast", cluster, 1 << 20)


@pytest.mark.parametrize("collective", MOVING)
def test_reversed_collectives_have_the_same_bound(collective):
    twins = {"reduce": "broadcast", "gather": "scatter", "reduce_scatter": "allgather"}
    machine = Topology.load("dgx1v", hosts=2)
    twin = twins.get(collective, collective)
    assert bound(collective, machine).per_byte == bound(twin, machine).per_byte


def test_an_unknown_bandwidth_does_not_limit():
    machine = Topology("pair")
    for i in range(3):
        machine.add(f"h{i}", Kind.HOST)
    machine.link("h0", "h1", LinkKind.NETWORK, 2.0)
    machine.link("h1", "h2", LinkKind.NETWORK)
    assert bound("broadcast", machine).bandwidth == 2.0


def test_what_has_no_bound_is_refused():
    machine = Topology.load("dgx1v")
    with pytest.raises(
        TopologyError, match="root 8 is out of range; there are 8 ranks"
    ):
        bound("broadcast", machine, root=8)
    with pytest.raises(TopologyError, match="no bound for 'gossip'"):
        bound("gossip", machine)
    with pytest.raises(TopologyError, match=r"nothing has fewer than two ranks \(0\)"):
        bound("allgather", Topology("nothing"))
    with pytest.raises(TopologyError, match="no ici or nvlink or xgmi link leaves"):
        bound("allgather", Topology.load("server8"), kinds=FAST)


def test_the_command_prints_the_bound_and_its_reason():
    words = ["bound", "allreduce", "dgx1v", "hosts=2", "nics=1", "--size", "1G"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "12.5 GB/s" in result.output
    assert "85.9 ms" in result.output
    assert "(8 of 16 ranks) can send at most" in " ".join(result.output.split())
    result = CliRunner().invoke(
        main, ["bound", "allgather", "dgx1v", "--only", "nvlink"]
    )
    assert "171.4 GB/s" in result.output


@pytest.mark.parametrize("nics", [1, 4])
@pytest.mark.parametrize("collective", BOUNDED)
def test_the_ports_of_a_host_are_one_of_the_cuts(collective, nics):
    cluster = UniformCluster.load("dgx1v", hosts=5, nics=nics)
    least = port_bound(collective, cluster, DEFAULTS) * 1e9
    assert least == pytest.approx(float(bound(collective, cluster).per_byte))
    assert port_bound(collective, UniformCluster.load("dgx1v"), DEFAULTS) == 0


@pytest.mark.parametrize(
    "machine", [("dgx1v", {"hosts": 2}), ("torus", {"dims": (3, 3)})]
)
def test_a_cut_does_not_depend_on_those_before(machine):
    """The cuts of a network share one residual graph."""
    name, parameters = machine
    topology = with_assumed_speeds(Topology.load(name, **parameters), DEFAULTS)
    network, draw = Network(topology), random.Random(name)
    for _ in range(12):
        some = draw.sample(network.ranks, draw.randint(1, len(network.ranks) - 1))
        assert network.around(some) == Network(topology).around(some)
