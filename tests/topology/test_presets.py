"""Named machines and fabrics."""

import math
from itertools import pairwise

import networkx as nx
import pytest

from collalgo import Topology, TopologyError, simulate
from collalgo.topology import rewiring
from collalgo.topology.domains import fast_domains
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.presets import FABRICS, machines, names
from collalgo.topology.rings import bandwidth, rings

#: GB/s that leave a GPU by NVLink or xGMI, raw, all links together.
PER_GPU = {
    "dgx1": 80, "dgx1v": 150, "dgx2": 150, "dgx_a100": 300, "dgx_h100": 450,
    "dgx_b200": 900, "gb200_nvl72": 900, "mi300x": 448, "ndv2": 150, "ndv4": 300,
    "ndv5": 450, "p4d": 300, "p5": 450,
}  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_every_name_is_built(name):
    topology = Topology.load(name)
    assert not topology.warnings
    assert nx.is_connected(topology.graph)
    assert all(link.bandwidth for link in topology.links)


@pytest.mark.parametrize("name", sorted({*PER_GPU, "server8", "dgx1v_8nics"}))
def test_between_sockets_copies_are_slower_than_below_a_switch(name):
    if name == "gb200_nvl72":
        pytest.skip("its CPUs are joined by NVLink-C2C")
    found = {kind: [] for kind in ("nvlink", "pcie", "smp")}
    for link in Topology.load(name).links:
        if link.kind in found:
            found[link.kind].append(link.bandwidth / link.count)
    assert max(found["smp"], default=0) < min(found["pcie"])
    assert not found["nvlink"] or min(found["pcie"]) < PER_GPU.get(name, 150)


@pytest.mark.parametrize(("name", "expected"), PER_GPU.items())
def test_a_gpu_has_the_nvlinks_that_are_published(name, expected):
    machine = Topology.load(name)
    for gpu in machine.devices(Kind.GPU):
        fast = [
            link.bandwidth
            for link in machine.links_of(gpu.id)
            if link.kind in ("nvlink", "xgmi")
        ]
        assert sum(fast) == expected
    assert len(fast_domains(machine)[0]) == len(machine.devices(Kind.GPU))


@pytest.mark.parametrize(
    ("name", "expected"), [("dgx1", 80), ("dgx1v", 150), ("dgx_h100", 450)]
)
def test_rings_use_all_nvlinks(name, expected):
    assert bandwidth(rings(Topology.load(name))) == expected


def test_speeds_are_parameters():
    machine = Topology.load("dgx1v", hosts=4, nics=2, nvlink=20.0, pcie=16.0, nic=25.0)
    assert {link.bandwidth for link in machine.links if link.kind == "nvlink"} == {
        20,
        40,
    }
    assert {link.bandwidth for link in machine.links if link.kind == "pcie"} == {16}
    assert {link.bandwidth for link in machine.links if link.kind == "network"} == {25}
    assert [nic.attributes["speed"] for nic in machine.devices("nic")] == [25.0] * 8
    assert len(machine.hosts) == 4


@pytest.mark.parametrize("nics", [0, 1, 2, 4, 8])
def test_a_server_keeps_the_given_number_of_nics(nics):
    machine = Topology.load("server8", nics=nics)
    assert len(machine.devices("nic")) == nics
    above = {next(machine.links_of(n.id)).other(n.id) for n in machine.devices("nic")}
    assert len(above) == min(nics, 4)


def test_a_hypervisor_hides_pcie_switches():
    hidden = Topology.load("server8", virtual=True)
    assert not hidden.devices("pci")
    assert nx.is_connected(hidden.graph)
    assert len(hidden.devices("gpu")) == 8


@pytest.mark.parametrize("oversubscription", [1.0, 2.0, 4.0])
def test_a_clos_carries_upwards_what_oversubscription_leaves(oversubscription):
    cluster = Topology.load("dgx_h100", hosts=8, hosts_per_leaf=4, rail=False,
                            oversubscription=oversubscription)  # fmt: skip
    for leaf in ("leaf0", "leaf1"):
        up = down = 0.0
        for link in cluster.links_of(leaf):
            above = link.other(leaf).startswith("spine")
            up += link.bandwidth * above
            down += link.bandwidth * (not above)
        assert down / up == oversubscription


@pytest.mark.parametrize("dims", [(2,), (3,), (4, 4), (2, 3, 4), (5, 1, 2)])
def test_a_torus_has_two_cables_for_each_dimension(dims):
    torus = Topology.load("torus", dims=dims)
    assert len(torus.hosts) == math.prod(dims)
    expected = sum({1: 0, 2: 1}.get(n, 2) for n in dims)
    assert set(dict(torus.graph.degree()).values()) == {expected}


@pytest.mark.parametrize(
    ("dims", "hosts"), [((4, 4), 4), ((4, 4, 4), 16), ((8, 4, 2), 16)]
)
def test_chips_of_a_tpu_are_a_torus_and_hosts_have_four(dims, hosts):
    machine = Topology.load("tpu", dims=dims, bandwidth=50.0)
    assert len(machine.hosts) == hosts
    assert {len(machine.devices("gpu", host=host)) for host in machine.hosts} == {4}
    assert len(fast_domains(machine)) == 1
    cables = {machine.degree(gpu.id) for gpu in machine.devices("gpu")}
    assert cables == {sum(2 if n > 2 else n - 1 for n in dims)}
    with pytest.raises(TopologyError, match="must be two or three"):
        Topology.load("tpu", dims=(3, 4))


def joined_by(machine, a, b):
    """The kinds of links on the way between two neighbours, of which GPUs are ends."""
    graph = machine.graph
    inner = [n for n in graph if n in (a, b) or machine.device(n).kind is Kind.NIC]
    path = nx.shortest_path(nx.Graph(graph.subgraph(inner)), a, b)
    return [
        next(link for link in machine.links_of(x) if link.other(x) == y).kind.value
        for x, y in pairwise(path)
    ]


@pytest.mark.parametrize(
    ("dims", "tile", "hosts", "nics"),
    [((8, 4), (4, 2), 4, 48), ((4, 4), (2, 2), 4, 32), ((6, 3), (3, 1), 6, 48),
     ((4, 4, 2), (2, 2, 1), 8, 96), ((6,), (2,), 3, 6), ((4, 4), (4, 4), 1, 0)],
)  # fmt: skip
def test_both_axes_of_a_tiled_torus_mix_nvlinks_and_nics(dims, tile, hosts, nics):
    machine = Topology.load("tiled_torus", dims=dims, tile=tile)
    gpus = [gpu.id for gpu in machine.devices("gpu")]
    assert (len(gpus), len(machine.hosts)) == (math.prod(dims), hosts)
    assert len(machine.devices("nic")) == nics
    for host in machine.hosts:
        assert len(machine.devices("gpu", host=host)) == math.prod(tile)
    for axis, length in enumerate(dims):
        stride, kinds = math.prod(dims[:axis]), set()
        for i, gpu in enumerate(gpus):
            if i // stride % length + 1 < length:
                kinds.add(tuple(joined_by(machine, gpu, gpus[i + stride])))
        by_nics = {("pcie", "network", "pcie")} if length > tile[axis] else set()
        by_nvlink = {("nvlink",)} if tile[axis] > 1 else set()
        assert kinds == by_nics | by_nvlink


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"tile": (3, 2)}, "tile must have an axis for each of dims, which it divides"),
     ({"tile": (4,)}, "tile must have an axis"), ({"tile": (0, 2)}, "tile must have"),
     ({"dims": (1 << 12, 1 << 12)}, "dims must have 1 to"), ({"nvlink": 0}, "nvlink"),
     ({"dims": (0, 4)}, "dims must have"), ({"tile": 4}, "must be integers")],
)  # fmt: skip
def test_a_tiled_torus_that_cannot_be_is_refused(given, reason):
    with pytest.raises(TopologyError, match=reason):
        Topology.load("tiled_torus", **given)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_is_that_of_the_literature(k):
    tree = Topology.load("fat_tree", k=k)
    assert len(tree.hosts) == k**3 // 4
    assert len(tree.devices("switch")) == 5 * k * k // 4
    switches = [d.id for d in tree.devices("switch")]
    assert {tree.degree(id) for id in switches} == {k}


def test_a_hypercube_and_a_dragonfly_have_their_structure():
    cube = Topology.load("hypercube", dimensions=4)
    assert nx.is_isomorphic(nx.Graph(cube.graph), nx.hypercube_graph(4))
    fly = Topology.load("dragonfly", groups=5, routers=4, hosts=2)
    assert len(fly.hosts) == 40
    assert len(fly.links) == 40 + 5 * 6 + 10


def test_an_unknown_name_or_parameter_is_refused_with_the_known_ones():
    with pytest.raises(TopologyError, match="choose one of cpu2s, dgx1, dgx1v"):
        Topology.load("dgx9")
    with pytest.raises(
        TopologyError, match="no parameter 'nvlnik'; it has nvlink, pcie"
    ):
        Topology.load("dgx1v", nvlnik=25.0)
    with pytest.raises(TopologyError, match="no parameter 'nics'; it has dims"):
        Topology.load("torus", nics=3)
    with pytest.raises(TopologyError, match="nics=9 must be from 0 to 4"):
        Topology.load("dgx1v", nics=9)
    with pytest.raises(TopologyError, match="hosts=0 must be"):
        Topology.load("dgx1v", hosts=0)


def test_every_machine_has_a_description_and_sources():
    for name, about in machines().items():
        assert len(about) > 20
        assert Topology.load(name).source
    assert set(machines()) | set(FABRICS) == set(names())


def below(topology, switch):
    others = {link.other(switch) for link in topology.links_of(switch)}
    return {id for id in others if topology.device(id).kind in (Kind.GPU, Kind.NIC)}


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_gpus_are_paired_with_nics_as_published(hosts):
    """GPUs 1 and 4, 2 and 3, 5 and 8, 6 and 7 with the NICs 1 to 4."""
    found = Topology.load("dgx1v", hosts=hosts, pairing="0+3,1+2,4+7,5+6")
    for host in found.hosts:
        for number, (a, b) in enumerate([(0, 3), (1, 2), (4, 7), (5, 6)]):
            assert below(found, f"{host}/pci{number}") == {
                f"{host}/gpu{a}", f"{host}/gpu{b}", f"{host}/nic{number}"
            }  # fmt: skip
    plain = Topology.load("dgx1v", hosts=hosts)
    assert len(found.links) == len(plain.links)
    same = Topology.load("dgx1v", hosts=hosts, pairing="0+1,2+3,4+5,6+7")
    assert {(link.ends, link.kind, link.bandwidth) for link in same.links} == {
        (link.ends, link.kind, link.bandwidth) for link in plain.links
    }


@pytest.mark.parametrize(
    "pairing", ["", "0", "0+3,1+2,4+7", "0+0,1+2,4+7,5+6", "a", "0+8,1+2,4+7,5+6", "-1"]
)
def test_a_pairing_that_cannot_be_is_refused(pairing):
    with pytest.raises(TopologyError, match="pairing="):
        Topology.load("dgx1v", pairing=pairing)


@pytest.mark.parametrize(("nics", "ports"), [(2, 4), (4, 2), (8, 1), (1, 8)])
def test_virtual_ports_share_the_speed_and_the_slot_of_their_nic(nics, ports):
    found = Topology.load("dgx1v_8nics", hosts=2, nics=nics, ports=ports)
    whole = Topology.load("dgx1v_8nics", hosts=2, nics=nics)
    for host in found.hosts:
        each = found.devices(Kind.NIC, host=host)
        assert len(each) == nics * ports
        assert {nic.attributes["speed"] for nic in each} == {12.5 / ports}
    leaves = [sum(link.bandwidth for link in t.links if link.kind == "network")
              for t in (found, whole)]  # fmt: skip
    assert leaves[0] == pytest.approx(leaves[1])
    size = 1 << 28
    seconds = [
        simulate("torus_2d", t, size, collective="allreduce").seconds
        for t in (found, whole)
    ]
    assert seconds[0] >= 0.99 * seconds[1]


def test_ports_of_a_cluster_and_switches_without_a_cpu_are_refused():
    with pytest.raises(TopologyError, match=r"ports=2 splits .*nic0 has 2; pass"):
        rewiring.split_nics(Topology.load("dgx1v", hosts=2), 2)
    with pytest.raises(TopologyError, match="hides the PCIe switch s0, from which no"):
        rewiring.hide_switches(switches("gpu-s0", "s0-s1"))


def test_a_switch_below_another_is_hidden_too():
    machine = switches("gpu-s0", "s0-s1", "s1-cpu")
    rewiring.hide_switches(machine)
    assert [set(link.ends) for link in machine.links] == [{"gpu", "cpu"}]


def switches(*links):
    """A host with two PCIe switches, of which the inner one comes first."""
    machine = Topology("nested")
    kinds = {"s0": Kind.PCI, "s1": Kind.PCI, "gpu": Kind.GPU, "cpu": Kind.CPU}
    for name, kind in kinds.items():
        machine.add(name, kind, host="h")
    for link in links:
        machine.link(*link.split("-"), LinkKind.PCIE, 12.0)
    return machine


@pytest.mark.parametrize("ports", [0, -1, 65, 1.5])
def test_a_number_of_ports_that_cannot_be_is_refused(ports):
    with pytest.raises(TopologyError, match="ports="):
        Topology.load("dgx1v", ports=ports)
