"""The price of a plan by representatives is that of its messages."""

import pytest

from collalgo import Topology
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.synthesis.planner import ONE, SEVERAL, Form, Planner
from collalgo.synthesis.ways import PLANNED
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network


def of_spines(*widths):
    """Leaves of eight hosts of 25 GB/s, with links of some GB/s to each spine."""
    topology = Topology("spines")
    spines = [topology.add(f"spine{i}", Kind.SWITCH) for i in range(len(widths[0]))]
    for i, up in enumerate(widths):
        leaf = topology.add(f"leaf{i}", Kind.SWITCH)
        for spine, width in zip(spines, up, strict=True):
            topology.link(leaf, spine, LinkKind.NETWORK, width)
        for j in range(8 * i, 8 * i + 8):
            host = topology.add(f"host{j}", Kind.HOST)
            topology.link(host, leaf, LinkKind.NETWORK, 25.0)
    return topology


MACHINES = {
    "equal hosts": lambda: Topology.load("dgx1v", hosts=2),
    "switches": lambda: Topology.load("dgx_a100", hosts=3),
    "one server": lambda: Topology.load("mi250x"),
    "a torus": lambda: Topology.load("torus", dims=(3, 4)),
    "a lost link": lambda: Topology.load("dgx1v").without("gpu0-gpu1"),
    "spines": lambda: of_spines((100.0, 100.0), (125.0, 125.0)),
    "unequal spines": lambda: of_spines((100.0, 100.0), (150.0, 50.0)),
    **{f"{size} hosts": lambda n=size: network(n, seed=n) for size in (2, 3, 5, 8, 17)},
}


@pytest.mark.parametrize("name", MACHINES)
def test_representatives_have_the_price_of_all_messages(name):
    planner = Planner(Placement(MACHINES[name]()))
    routing = planner.routes.routing
    for collective, ways in PLANNED.items():
        for way in ways:
            for peers, pace in ((ONE, "even"), (SEVERAL, "half")):
                form = Form(way, 5, pace, peers)
                line = planner.price(collective, form)
                whole = rounds(planner.messages(collective, form), routing).line
                whole = whole.over(planner.buffers(collective))
                assert line.latency == pytest.approx(whole.latency, rel=1e-12)
                assert line.per_byte == pytest.approx(whole.per_byte, rel=1e-10)
                assert line.assumed == whole.assumed


@pytest.mark.parametrize("name", ["fast links", "slow links"])
def test_assumed_speeds_count_where_they_carry_bytes(name):
    line = Planner(Placement(of_unknown_speed(name == "slow links"))).price(
        "broadcast", Form("trees", 4)
    )
    assert line.assumed == (name == "slow links")


def of_unknown_speed(is_needed):
    """Three hosts in a row, maybe the last one over a link of unknown speed."""
    topology = Topology("a row")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(3)]
    topology.link(hosts[0], hosts[1], LinkKind.NETWORK, 5.0)
    topology.link(hosts[1], hosts[2], LinkKind.NETWORK, None if is_needed else 5.0)
    topology.link(hosts[0], topology.add("switch", Kind.SWITCH), LinkKind.NETWORK)
    return topology


@pytest.mark.parametrize(
    ("cost", "value"),
    [
        ("crowding", 0.5),
        ("turning", 0.5),
        ("reduction", 0.5e-9),
        ("network_byte", 0.7e-9),
        ("network_message", 13e-6),
    ],
)
def test_costs_that_depend_on_messages_are_priced_by_them(cost, value):
    model = LinkModel(**{cost: value})
    planner = Planner(Placement(network(5, seed=1), link_model=model))
    form = Form("blocks", 4)
    expected = rounds(planner.messages("allreduce", form), planner.routes.routing).line
    plain = Planner(Placement(network(5, seed=1))).price("allreduce", form)
    found = planner.price("allreduce", form)
    assert found == expected
    assert found.seconds(1 << 20) > plain.seconds(1 << 20)
