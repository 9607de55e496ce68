"""The division of messages over parallel ways."""

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology, select, simulate
from collalgo.bootstrap.host_inventory import detected
from collalgo.cost.bounds import bound
from collalgo.cost.placement import Placement
from collalgo.cost.routing import Routes
from collalgo.cost.shortest_paths import divided
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.ranks import local_view

GIB = 1 << 30

widths = st.floats(0.5, 500.0)


def throughput(topology, a, b):
    """GB/s of a long message from a device to another."""
    routes = Routes(topology, [a, b])
    route = routes.route(a, b)
    speed = routes.speed[list(route.directed_links)]
    return 1e-9 / float(np.max(np.array(route.parts) / speed))


def between(ways):
    """Two hosts, with a switch on each way between them."""
    topology = Topology("ways")
    for host in "ab":
        topology.add(host, Kind.HOST)
    for i, (first, second) in enumerate(ways):
        switch = topology.add(f"s{i}", Kind.SWITCH)
        topology.link("a", switch, LinkKind.NETWORK, first)
        topology.link(switch, "b", LinkKind.NETWORK, second)
    return topology


CLUSTERS = Path(__file__).parents[2] / "bench" / "cluster" / "files"


def first_links(topology, a, b):
    """The part of a message on each network link that leaves the host of a device."""
    routes, host = Routes(topology, [a, b]), topology.device(a).host
    route = routes.route(a, b)
    found = {}
    for number, part in zip(route.directed_links, route.parts, strict=True):
        link, forwards = routes.directed_link(number)
        start = topology.device(link.ends[not forwards])
        if link.kind is LinkKind.NETWORK and start.host == host:
            found[start.id] = part
    return found


def test_equally_wide_routes_over_hosts_share_a_message_and_narrower_ones_have_none():
    ends = "h0/core0", "h2/core0"
    ring = Topology.read(CLUSTERS / "ring.yaml")
    assert first_links(ring, *ends) == {"h0/nic0": 0.5, "h0/nic1": 0.5}
    slow = ring.degraded("h2/nic1-h3/nic0", 0.5)
    assert first_links(slow, *ends) == {"h0/nic1": 1.0}
    assert first_links(ring, "h0/core0", "h1/core0") == {"h0/nic1": 1.0}
    torus = Topology.read(CLUSTERS / "torus.yaml")
    ways = first_links(torus, "h0/core0", "h4/core0")
    assert ways == {"h0/nic0": 0.5, "h0/nic2": 0.5}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_parallel_ways_carry_what_they_can_together(count):
    rng = np.random.default_rng(count)
    ways = rng.uniform(1.0, 100.0, (count, 2))
    topology = between(ways.tolist())
    together = ways.min(axis=1).sum()
    assert throughput(topology, "a", "b") == pytest.approx(together)
    assert throughput(topology, "b", "a") == pytest.approx(together)
    assert bound("broadcast", topology).bandwidth == pytest.approx(together)
    found = simulate("linear", topology, GIB, collective="broadcast")
    assert found.ratio == pytest.approx(1.0, rel=1e-2)


@given(st.lists(st.tuples(widths, widths), min_size=1, max_size=9))
def test_parts_of_parallel_ways_add_up_and_fit(ways):
    routes = Routes(between(ways), ["a", "b"])
    route = routes.route("a", "b")
    assert math.fsum(route.parts) == pytest.approx(2.0)  # once over each layer
    together = sum(map(min, ways))
    for number, part in zip(route.directed_links, route.parts, strict=True):
        link, _ = routes.directed_link(number)
        assert part * together <= link.bandwidth * (1 + 1e-9)


@given(st.floats(0.01, 1e4), st.lists(st.tuples(widths, widths), min_size=1))
def test_what_is_divided_is_all_there_and_in_proportion(amount, ways):
    wide, most = zip(*ways, strict=True)
    parts = divided(amount, wide, most)
    assert math.fsum(parts) == pytest.approx(amount)
    if amount <= sum(most):
        assert all(
            part <= each * (1 + 1e-9) for part, each in zip(parts, most, strict=True)
        )
        free = [
            p / w for p, w, m in zip(parts, wide, most, strict=True) if p < m * 0.999
        ]
        assert free == pytest.approx([free[0]] * len(free)) if free else True


def test_a_narrow_way_to_all_does_not_even_out_what_follows():
    topology = between([(100.0, 100.0), (50.0, 50.0)])
    topology.add("c", Kind.HOST)
    topology.add("leaf", Kind.SWITCH)
    topology.link("c", "leaf", LinkKind.NETWORK, 12.5)
    for switch in ("s0", "s1"):
        topology.link(
            "leaf", switch, LinkKind.NETWORK, 100.0 if switch == "s0" else 50.0
        )
    route = Routes(topology, ["c", "a"]).route("c", "a")
    assert sorted(route.parts) == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1.0])


def test_a_slow_direct_link_does_not_replace_wide_ways_around_it():
    topology = between([(100.0, 100.0), (50.0, 50.0)])
    topology.link("a", "b", LinkKind.NETWORK, 1.0)
    assert throughput(topology, "a", "b") == pytest.approx(150.0)


def test_links_of_two_kinds_between_the_same_devices_are_two_ways():
    topology = Topology("two kinds")
    for i in range(2):
        topology.add(f"host0/gpu{i}", Kind.GPU, host="host0")
    topology.link("host0/gpu0", "host0/gpu1", LinkKind.NVLINK, 50.0)
    topology.link("host0/gpu0", "host0/gpu1", LinkKind.XGMI, 25.0)
    assert throughput(topology, "host0/gpu0", "host0/gpu1") == pytest.approx(75.0)


@settings(max_examples=50)
@given(st.lists(st.lists(widths, min_size=2, max_size=4), min_size=1, max_size=4))
def test_layers_of_switches_carry_no_more_than_a_flow(layers):
    """Every switch of a layer is linked to every one of the next."""
    topology = Topology("layers")
    before = [topology.add("a", Kind.HOST)]
    for i, layer in enumerate(layers):
        here = [topology.add(f"s{i}.{k}", Kind.SWITCH) for k in range(len(layer))]
        for other in before:
            for switch, width in zip(here, layer, strict=True):
                topology.link(other, switch, LinkKind.NETWORK, width)
        before = here
    topology.add("b", Kind.HOST)
    for other in before:
        topology.link(other, "b", LinkKind.NETWORK, 10.0)
    graph = nx.Graph()
    for link in topology.links:
        graph.add_edge(*link.ends, capacity=link.bandwidth)
    most = nx.maximum_flow_value(graph, "a", "b")
    assert throughput(topology, "a", "b") <= most * (1 + 1e-9)
    assert throughput(topology, "a", "b") >= most / 4  # each hop divides on its own


def switched(wide, gpus=8):
    """GPUs that are all linked to switches of some widths, as in lists of SimAI."""
    topology = Topology("switched")
    names = [f"host0/gpu{i}" for i in range(gpus)]
    for name in names:
        topology.add(name, Kind.GPU, host="host0")
    for i, width in enumerate(wide):
        switch = topology.add(f"host0/nvswitch{i}", Kind.NVSWITCH, host="host0")
        for name in names:
            topology.link(name, switch, LinkKind.NVLINK, width)
    return topology


@pytest.mark.parametrize("wide", [(125, 100, 100, 125), (1, 2, 3), (450,), (10, 90)])
@pytest.mark.parametrize("collective", ["allreduce", "alltoall", "allgather"])
def test_switches_of_unequal_width_are_as_good_as_one(collective, wide):
    one = select(collective, GIB, topology=switched([sum(wide)]))
    several = select(collective, GIB, topology=switched(wide))
    assert several.seconds == pytest.approx(one.seconds)
    assert several.ratio < 1.01


def test_all_nvlinks_of_a_dgx_h100_are_used():
    chosen = select("allreduce", GIB, topology=Topology.load("dgx_h100"))
    assert chosen.seconds == pytest.approx(2 * 7 / 8 * GIB / 450e9, rel=0.01)


@pytest.mark.parametrize("slow", [5.0, 12.5, 25.0])
def test_nics_of_unequal_speed_carry_what_both_can(slow):
    topology = of_two_nics(*[(25.0, slow)] * 3)
    assert throughput(topology, "h0/core", "h2/core") == pytest.approx(25.0 + slow)
    assert select("alltoall", GIB, topology=topology).ratio < 1.01


def of_two_nics(*speeds):
    """Hosts of a core and two NICs each, on one switch."""
    topology = Topology("two NICs")
    switch = topology.add("leaf", Kind.SWITCH)
    for number, pair in enumerate(speeds):
        host = f"h{number}"
        cpu = topology.add(f"{host}/cpu", Kind.CPU, host=host)
        core = topology.add(f"{host}/core", Kind.CORE, host=host)
        topology.link(core, cpu, LinkKind.SMP, 200.0)
        for i, speed in enumerate(pair):
            nic = topology.add(f"{host}/nic{i}", Kind.NIC, host=host)
            topology.link(nic, cpu, LinkKind.PCIE, 63.0)
            topology.link(nic, switch, LinkKind.NETWORK, speed)
    return topology


@pytest.mark.parametrize("speed", [1.0, 5.0, 12.5, 18.0, 25.0, 50.0])
def test_a_slow_sender_uses_the_nics_of_a_receiver_by_their_widths(speed):
    """They may be shared by several such senders, as in a gather."""
    topology = of_two_nics((25.0, 12.5), (speed, speed))
    routes = Routes(topology, ["h0/core", "h1/core"])
    found = {}
    for ends in (("h0/core", "h1/core"), ("h1/core", "h0/core")):
        route = routes.route(*ends)
        for number, part in zip(route.directed_links, route.parts, strict=True):
            link, _ = routes.directed_link(number)
            if "h0/nic" in link.ends[0] and link.kind is LinkKind.NETWORK:
                found[ends[0], link.ends[0]] = part
    assert len(found) == 4
    for (_, nic), part in found.items():
        expected = 2 / 3 if nic == "h0/nic0" else 1 / 3
        assert part == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("hosts", [2, 3, 5, 7, 8, 12])
def test_a_gather_into_unequal_nics_is_as_good_as_a_scatter(hosts):
    speeds = [(25.0, 12.5), *[(5.0, 10.0)] * (hosts - 1)]
    topology = of_two_nics(*speeds)
    prices = [select(c, GIB, topology=topology) for c in ("gather", "scatter")]
    assert prices[0].seconds == pytest.approx(prices[1].seconds, rel=1e-6)
    assert prices[0].ratio < 1.01


def test_gpus_reach_the_nics_of_other_gpus():
    cluster = Topology.load("mi250x", hosts=2)
    assert throughput(cluster, "host0/gpu0", "host1/gpu7") == pytest.approx(25.0)


def test_a_link_that_carries_nothing_is_no_way():
    topology = between([(0.0, 10.0), (5.0, 10.0)])
    assert throughput(topology, "a", "b") == pytest.approx(5.0)


@pytest.mark.parametrize("hosts", [(0, 1, 0, 1), (0, 1, 1, 0), (0, 1, 2, 0, 2, 1)])
def test_ranks_may_alternate_between_equal_hosts(hosts):
    """As members of an elastic job do, of which some were restarted."""
    views = [local_view() for _ in hosts]
    machines = detected(views, hosts, 10.0)
    found = Placement(machines.topology, machines.devices)
    assert found.cluster is None  # whose ranks are numbered one host after the other
    assert found.routes is not None
    machines = detected(views, sorted(hosts), 10.0)
    in_order = Placement(machines.topology, machines.devices)
    assert in_order.cluster is not None
    assert in_order.hosts == found.hosts


@pytest.mark.parametrize("size", [3, 4, 5, 7, 8])
def test_neighbours_without_a_switch_use_their_own_link_though_it_is_slow(size):
    """Hosts pass messages on by routing tables, which count links, not bandwidths."""
    ring = Topology("ring", "built")
    for host in (f"h{i}" for i in range(size)):
        ring.add(f"{host}/cpu0", Kind.CPU, host=host)
        ring.add(f"{host}/core0", Kind.CORE, host=host)
        ring.link(f"{host}/core0", f"{host}/cpu0", LinkKind.SMP, 100.0)
        for nic in (f"{host}/nic0", f"{host}/nic1"):
            ring.add(nic, Kind.NIC, host=host)
            ring.link(nic, f"{host}/cpu0", LinkKind.PCIE, 100.0)
    for i in range(size):
        ends = f"h{i}/nic1", f"h{(i + 1) % size}/nic0"
        ring.link(*ends, LinkKind.NETWORK, 1.0 if i + 1 < size else 0.3)
    routes = Placement(ring).routes
    _, loads = routes.link_loads(np.array([0]), np.array([size - 1]))
    links = [routes.directed_link(number)[0] for number in loads.link.tolist()]
    network = [{*link.ends} for link in links if link.kind is LinkKind.NETWORK]
    assert network == [{"h0/nic0", f"h{size - 1}/nic1"}]
    assert select("allgather", 1 << 30, topology=ring).ratio < 1.05
