"""Speeds that are assumed where a topology gives none."""

import json
from fractions import Fraction
from functools import cache

import pytest
from click.testing import CliRunner

from collalgo import Topology, TopologyError, select, simulate
from collalgo.cli.main import main
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.link_model import LinkModel
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.assumed import SPEEDS, names, with_assumed_speeds
from collalgo.topology.model import Kind, LinkKind
from tests.support.leisure import at_leisure

MIB, GIB = 1 << 20, 1 << 30

COUNTS = (2, 3, 5, 7, 8, 12, 16, 17, 33)


def cards(count, **attributes):
    """GPUs on PCIe of one CPU, at unknown speed."""
    topology = Topology("cards")
    cpu = topology.add("host0/cpu0", Kind.CPU, host="host0")
    for i in range(count):
        gpu = topology.add(f"host0/gpu{i}", Kind.GPU, host="host0", **attributes)
        topology.link(gpu, cpu, LinkKind.PCIE)
    return topology


def leaves(hosts, each=4):
    """Hosts of two levels of switches at unknown speed, as Slurm lists them."""
    topology = Topology("leaves")
    top = topology.add("top", Kind.SWITCH)
    for i in range(hosts):
        leaf = f"leaf{i // each}"
        if i % each == 0:
            topology.link(topology.add(leaf, Kind.SWITCH), top, LinkKind.NETWORK)
        topology.link(topology.add(f"n{i}", Kind.HOST), leaf, LinkKind.NETWORK)
    return topology


@cache
def pricer_of(machine, count):
    """The prices on a machine, for all collectives."""
    return TopologyPricer(machine(count))


@pytest.mark.parametrize("collective", BOUNDED)
@pytest.mark.parametrize("count", at_leisure(COUNTS, {2, 3, 5, 8, 12, 17}))
@pytest.mark.parametrize("machine", [cards, leaves])
def test_no_price_is_below_its_bound(machine, count, collective):
    pricer = pricer_of(machine, count)
    for nbytes in (8, 1 << 16, 64 * MIB):
        found = select(collective, nbytes, topology=pricer)
        assert found.ratio >= 1 - 1e-9
        assert found.seconds > 0


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, "pcie3"), ({"sm": 70}, "pcie3"), ({"sm": 80}, "pcie4"),
        ({"sm": 89}, "pcie4"), ({"sm": 90}, "pcie5"), ({"sm": 100}, "pcie5"),
        ({"gcn": "gfx90a"}, "pcie4"), ({"gcn": "gfx942"}, "pcie5"),
    ],
)  # fmt: skip
def test_pcie_is_assumed_by_the_generation_of_the_gpus(attributes, name):
    known = with_assumed_speeds(cards(2, **attributes))
    for link in known.links:
        assert link.bandwidth == SPEEDS[name].bandwidth
        assert name in link.assumed[0]
    pair = simulate("ring", cards(2, **attributes), 64 * MIB, collective="allreduce")
    expected = 64 * MIB / SPEEDS[name].bandwidth / 1e9
    assert pair.seconds == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [({}, "smp3"), ({"sm": 80}, "smp4"), ({"sm": 90}, "smp5"), (None, "smp")],
)
def test_copies_between_sockets_are_slower_than_pcie_where_there_are_gpus(
    attributes, name
):
    topology = Topology("two sockets") if attributes is None else cards(2, **attributes)
    sockets = [topology.add(f"host0/cpu{i}", "cpu", host="host0") for i in (8, 9)]
    topology.link(*sockets, LinkKind.SMP)
    known = with_assumed_speeds(topology)
    (link,) = known.links_of(sockets[0])
    assert link.bandwidth == SPEEDS[name].bandwidth
    others = [each.bandwidth for each in known.links if each.kind is LinkKind.PCIE]
    assert all(link.bandwidth < other for other in others)


@pytest.mark.parametrize(
    ("cables", "name"), [(4, "pcie3"), (12, "pcie4"), (18, "pcie5")]
)
def test_pcie_is_assumed_by_the_number_of_nvlinks(cables, name):
    topology = cards(2)
    topology.link(
        "host0/gpu0", "host0/gpu1", LinkKind.NVLINK, 25.0 * cables, count=cables
    )
    found = {
        link.bandwidth
        for link in with_assumed_speeds(topology).links
        if link.kind == "pcie"
    }
    assert found == {SPEEDS[name].bandwidth}


@pytest.mark.parametrize("hosts", COUNTS)
def test_a_link_between_switches_passes_on_what_is_below_it(hosts):
    found = {
        link.ends: link.bandwidth for link in with_assumed_speeds(leaves(hosts)).links
    }
    for i in range(0, hosts, 4):
        below = 12.5 * min(4, hosts - i)
        assert found[f"leaf{i // 4}", "top"] == below
    # The bytes of a host limit, not the switches.
    found = bound("alltoall", leaves(hosts))
    assert found.per_byte == Fraction(hosts - 1, hosts) / Fraction(12.5)


def test_a_machine_whose_speeds_are_known_is_the_same_object():
    for name in ("dgx1v", "gb200_nvl72", "torus"):
        machine = Topology.load(name)
        assert with_assumed_speeds(machine) is machine
    assert select("allreduce", GIB, topology=Topology.load("dgx1v")).assumptions == ()


def test_what_is_assumed_is_not_written_into_the_machine():
    machine = cards(3)
    select("allreduce", GIB, topology=machine)
    assert all(link.bandwidth is None for link in machine.links)


@pytest.mark.parametrize("given", [{"pcie": 63.0}, {"pcie3": 63.0}])
def test_an_assumed_speed_can_be_given(given):
    model = LinkModel(assumed=given)
    slow = simulate("ring", cards(2), GIB, collective="allreduce")
    fast = simulate("ring", cards(2), GIB, collective="allreduce", link_model=model)
    assert fast.seconds == pytest.approx(slow.seconds / 4, rel=1e-3)
    fast_bound = bound("allreduce", cards(2), link_model=model)
    assert fast_bound.per_byte * 4 == bound("allreduce", cards(2)).per_byte


def test_what_a_reader_has_assumed_can_be_given_too():
    topology = cards(2)
    rule = ("25 GB/s for each NVLink",)
    ends = "host0/gpu0", "host0/gpu1"
    topology.link(*ends, LinkKind.NVLINK, 50.0, count=2, assumed=rule)
    for given, expected in (
        ({"nvlink": 50.0}, 100.0), ({"nvlink2": 50.0}, 100.0),
        ({"nvlink5": 80.0}, 50.0), ({"pcie": 8.0}, 50.0), ({}, 50.0),
    ):  # fmt: skip
        known = with_assumed_speeds(topology, given)
        fast = [link.bandwidth for link in known.links if link.kind == "nvlink"]
        assert fast == [expected], given


@pytest.mark.parametrize("speed", [1.25, 25.0, 100.0])
def test_a_cable_is_as_fast_as_its_port(speed):
    topology = Topology("ports")
    leaf = topology.add("leaf", Kind.SWITCH)
    for i in range(2):
        nic = topology.add(f"h{i}/nic", Kind.NIC, host=f"h{i}", speed=speed)
        topology.link(nic, leaf, LinkKind.NETWORK)
    found = {link.bandwidth for link in with_assumed_speeds(topology).links}
    assert found == {speed}
    given = with_assumed_speeds(topology, {"network": 3.0})
    assert {link.bandwidth for link in given.links} == {3.0}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pci": 3.0}, "there is no assumed speed 'pci'; the names are c2c, core"),
        ({"pcie": 0.0}, "pcie: a speed of 0 GB/s is not possible"),
        ({"pcie": float("inf")}, "pcie: a speed of inf GB/s is not"),
    ],
)
def test_a_wrong_speed_is_refused(given, reason):
    with pytest.raises(TopologyError, match=reason):
        with_assumed_speeds(cards(2), given)


@pytest.mark.parametrize("name", names())
def test_every_name_is_an_option_and_a_key_of_figures(name, tmp_path):
    path = tmp_path / "figures.yaml"
    path.write_text(f"collalgo: figures/1\nassumed: {{{name}: 7.5}}\n")
    assert LinkModel.read(path).assumed == {name: 7.5}
    words = ["bound", "allreduce", "dgx1v", "--assume", f"{name}=7.5"]
    assert CliRunner().invoke(main, words).exit_code == 0


@pytest.fixture(params=[cards, leaves])
def file(request, tmp_path):
    path = str(tmp_path / "unknown.yaml")
    request.param(4).write(path)
    return path


def lines(*words):
    """The output of a command that succeeds."""
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    return found.output.splitlines()


def test_every_figure_that_rests_on_one_says_so(file):
    head, reason, *rules = lines("bound", "allreduce", file)
    assert head.count("(assumed)") == 2
    assert "if the speed is as assumed" in reason
    assert rules[-1].startswith("assumed: ")
    head, _, compared, *_ = lines("select", "allreduce", "1G", "--topology", file)
    assert "(assumed)" in head
    assert "times the bound of" in compared
    assert "(assumed)" in compared
    table = lines("select", "allreduce", "--topology", file, "--size", "64M,1G")
    assert all(row.count("(assumed)") == 2 for row in table[-2:])
    words = ("simulate", "allreduce", "ring", file)
    for model in ("rounds", "fluid"):
        assert [
            ("assumed" in line) for line in lines(*words, "--model", model)[:3]
        ] == [True] * 3
    assert any("(assumed)" in line for line in lines("topo", "show", file))
    found = json.loads("\n".join(lines(*SELECT_JSON, file)))
    assert found["assumed"]
    assert {one.get("caveat", "assumed") for one in found["candidates"]} == {"assumed"}


def test_a_bound_has_the_range_of_generations(tmp_path):
    path = str(tmp_path / "unknown.yaml")
    cards(2).write(path)
    words = ["bound", "allreduce", path, "--size", "63M"]
    output = CliRunner().invoke(main, words).output
    nbytes = 63 * MIB
    ends = [f"{nbytes / speed * 1e-6:.3g} ms" for speed in (63.0, 15.75)]
    expected = f"with pcie of 15.75 to 63 GB/s: at least {ends[0]} to {ends[1]}"
    assert expected in output
    output = CliRunner().invoke(main, [*words, "--assume", "pcie=8"]).output
    assert "with pcie of" not in output


SELECT_JSON = ("select", "allreduce", "1G", "--json", "--topology")


def test_a_figure_that_rests_on_none_does_not_say_so():
    topology = cards(4)
    switch = topology.add("host0/nvswitch0", Kind.NVSWITCH, host="host0")
    for i in range(4):
        topology.link(f"host0/gpu{i}", switch, LinkKind.NVLINK, 450.0)
    found = simulate("ring", topology, GIB, collective="allreduce")
    assert not found.assumed
    assert not found.bound.assumed  # no message takes PCIe
    assert "(assumed)" not in str(found).splitlines()[0]


def test_links_to_nothing_do_not_count():
    topology = Topology.load("dgx_a100")
    nic = topology.add("host0/nic99", Kind.NIC, host="host0")
    topology.link(nic, "host0/cpu0", LinkKind.PCIE)
    assert not TopologyPricer(topology).assumptions


def test_a_cluster_of_unknown_speed_is_completed():
    pair = Topology("pair")
    leaf = pair.add("leaf", Kind.SWITCH)
    for host in ("host0", "host1"):
        cpu = pair.add(f"{host}/cpu", Kind.CPU, host=host)
        gpu = pair.add(f"{host}/gpu", Kind.GPU, host=host)
        nic = pair.add(f"{host}/nic", Kind.NIC, host=host)
        for a, b, kind in (
            (gpu, cpu, "pcie"),
            (nic, cpu, "pcie"),
            (nic, leaf, "network"),
        ):
            pair.link(a, b, LinkKind(kind))
    for hosts in (2, 300):
        cluster = UniformCluster("many", pair, hosts)
        found = bound("allreduce", cluster)
        assert found.bandwidth == pytest.approx(12.5 * hosts / (hosts - 1) / 2)
        assert found.assumed
        assert TopologyPricer(cluster).assumptions


def test_a_price_below_its_bound_is_called_wrong():
    def idle(group):
        yield ()

    machine = Topology.load("dgx1v", hosts=9)  # more ranks than are proved
    text = str(simulate(idle, machine, GIB, collective="allreduce"))
    assert "below the bound, which is impossible" in text
    assert "collalgo verify" in text
