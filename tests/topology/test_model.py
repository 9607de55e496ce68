"""The graph itself, paths, domains, affinity, rings and orders."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology, TopologyError
from collalgo.base.hostlist import expand, fold
from collalgo.topology import best_path
from collalgo.topology.affinity import (
    assignment,
    is_rail_optimised,
    nearest_nics,
    rails,
)
from collalgo.topology.compare import differences, isomorphic
from collalgo.topology.document import build, document, text
from collalgo.topology.domains import fast_domains, levels
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.net import Net
from collalgo.topology.orders import rail_order, ring_order, torus_order
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import matrix, paths_from, paths_in
from collalgo.topology.readers import parse
from collalgo.topology.rings import bandwidth, most_cycles, rings
from tests.support.random_topologies import machines, renamed

pytestmark = pytest.mark.parallel

quickly = settings(max_examples=60, deadline=None)


def small():
    machine = Topology("small")
    for id, kind in (("c0", "cpu"), ("c1", "cpu"), ("s", "pci"), ("t", "pci")):
        machine.add(id, Kind(kind), host="h")
    for id in ("g0", "g1", "g2", "g3"):
        machine.add(id, Kind.GPU, host="h")
    machine.link("c0", "c1", LinkKind.SMP, 10.0)
    machine.link("s", "c0", LinkKind.PCIE, 12.0)
    machine.link("t", "s", LinkKind.PCIE, 12.0)
    for gpu, above in (("g0", "s"), ("g1", "s"), ("g2", "t"), ("g3", "c1")):
        machine.link(gpu, above, LinkKind.PCIE, 16.0)
    return machine


def test_the_type_of_a_path_is_what_it_passes():
    machine = small()
    found = {b: best_path(machine, "g0", b) for b in ("g0", "g1", "g2", "g3")}
    assert [path.type.name for path in found.values()] == ["LOC", "PIX", "PXB", "SYS"]
    assert [found[b].bandwidth for b in ("g1", "g2", "g3")] == [16.0, 12.0, 10.0]
    assert found["g3"].devices == ("g0", "s", "c0", "c1", "g3")


@quickly
@given(machines(), st.data())
def test_paths_to_some_are_those_to_all(machine, data):
    ids = [device.id for device in machine.devices()]
    source, target = data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(ids))
    some = {*data.draw(st.lists(st.sampled_from(ids))), target}
    to_all = paths_from(machine, source)
    expected = {id: path for id, path in to_all.items() if id in some}
    found = paths_in(Net(machine), source, some)
    assert found.keys() == expected.keys()
    for id, path in found.items():
        assert path[:2] == expected[id][:2]
        assert len(path.links) == len(expected[id].links)


def test_a_better_type_beats_bandwidth_and_bandwidth_beats_fewer_links():
    machine = small()
    machine.link("g0", "g3", LinkKind.NVLINK, 1.0)
    assert best_path(machine, "g0", "g3").type is PathType.NVL
    wide = Topology("wide")
    for id in ("a", "b", "x", "y"):
        wide.add(id, Kind.SWITCH)
    wide.link("a", "b", LinkKind.NETWORK, 1.0)
    for one, other in (("a", "x"), ("x", "y"), ("y", "b")):
        wide.link(one, other, LinkKind.NETWORK, 5.0)
    assert best_path(wide, "a", "b").devices == ("a", "x", "y", "b")
    wide.link("a", "b", LinkKind.NETWORK, 4.0)  # a second cable: 5.0 in all
    assert best_path(wide, "a", "b").devices == ("a", "b")


def test_gpus_lend_their_nvlinks_for_one_hop_only():
    machine = small()
    for a, b in (("g0", "g1"), ("g1", "g2"), ("g2", "g3")):
        machine.link(a, b, LinkKind.NVLINK, 25.0)
    assert best_path(machine, "g0", "g2").type is PathType.NVB
    assert best_path(machine, "g0", "g3").type is PathType.SYS


def test_hosts_of_a_torus_and_chips_of_a_tpu_are_routers():
    torus = Topology.load("torus", dims=(4, 4))
    assert len(best_path(torus, "host0", "host5").links) == 2
    assert best_path(torus, "host0", "host5").type is PathType.NET
    chips = Topology.load("tpu", dims=(4, 4, 4))
    a, b = (chips.devices(Kind.GPU)[i].id for i in (0, 42))  # two steps along each axis
    assert len(best_path(chips, a, b).links) == 6
    tree = Topology.load("fat_tree", k=4)
    route = best_path(tree, "host0", "host15").devices
    assert not any(id.startswith("host") for id in route[1:-1])


def test_an_unknown_bandwidth_stays_unknown():
    machine = small()
    machine.link("c0", "c1", LinkKind.SMP)
    assert best_path(machine, "g0", "g3").bandwidth is None
    assert best_path(machine, "g0", "g1").bandwidth == 16.0


def test_of_equal_paths_one_of_known_bandwidth_is_taken():
    machine = Topology("square")
    for id in ("a", "b", "x", "y"):
        machine.add(id, Kind.SWITCH)
    for one, other, width in (
        ("a", "x", None),
        ("x", "b", 5.0),
        ("a", "y", 5.0),
        ("y", "b", 5.0),
    ):
        machine.link(one, other, LinkKind.NETWORK, width)
    for a, b in ("ab", "ba"):
        assert best_path(machine, a, b).bandwidth == 5.0


def test_devices_without_a_path_are_apart():
    machine = small()
    machine.add("alone", Kind.GPU)
    assert best_path(machine, "g0", "alone").type is PathType.DIS
    with pytest.raises(TopologyError, match="no device 'nobody'"):
        best_path(machine, "g0", "nobody")


def test_links_that_cannot_be_are_refused_or_left_out():
    machine = small()
    with pytest.raises(TopologyError, match="there is no device x"):
        machine.link("g0", "x", LinkKind.PCIE)
    for speed in (-1.0, float("nan"), float("inf")):
        with pytest.raises(TopologyError, match="pcie g0 - g1: a bandwidth of"):
            machine.link("g0", "g1", LinkKind.PCIE, speed)
    before = len(machine.links)
    machine.link("g0", "g0", LinkKind.NVLINK, 25.0)
    assert len(machine.links) == before
    assert "a link to itself" in machine.warnings[0]


def test_an_id_that_is_taken_becomes_another():
    machine = Topology()
    assert [machine.add("gpu", Kind.GPU) for _ in range(3)] == ["gpu", "gpu#2", "gpu#3"]
    assert len(machine.warnings) == 2


@quickly
@given(machines(), st.randoms(use_true_random=False))
def test_another_numbering_changes_nothing_that_is_derived(machine, dice):
    order = list(range(len(machine.devices())))
    dice.shuffle(order)
    names = [f"device{i}" for i in dice.sample(range(100), len(order))]
    other, ids = renamed(machine, order, names)
    assert isomorphic(machine, other)
    gpus = [gpu.id for gpu in machine.devices(Kind.GPU)]
    mine, theirs = matrix(machine, gpus), matrix(other, [ids[gpu] for gpu in gpus])
    for row, again in zip(mine, theirs, strict=True):
        assert [p.type for p in row] == [p.type for p in again]
        assert [p.bandwidth for p in row] == [p.bandwidth for p in again]
    domains = {frozenset(ids[g] for g in d) for d in fast_domains(machine)}
    assert domains == {frozenset(d) for d in fast_domains(other)}
    for gpu in gpus:
        nics = {ids[nic] for nic in nearest_nics(machine, gpu)}
        assert nics == set(nearest_nics(other, ids[gpu]))
    parts = [(level.name, len(level.parts)) for level in levels(machine)]
    assert parts == [(level.name, len(level.parts)) for level in levels(other)]


@quickly
@given(machines())
def test_what_is_written_is_read_back_the_same(machine):
    for form in ("yaml", "json"):
        again = parse(text(machine, form), "x")
        assert document(again)["links"] == document(machine)["links"]
        assert document(again)["devices"] == document(machine)["devices"]
        assert not differences(machine, again)


def test_a_difference_is_found():
    a, b = Topology.load("dgx1v"), Topology.load("dgx1v", nvlink=20.0)
    assert isomorphic(a, b, bandwidth=False)
    assert not isomorphic(a, b)
    assert len(differences(a, b)) == 16
    assert differences(a, b)[0].startswith(
        "~ host0/gpu0 - host0/gpu1 (nvlink): 1 x, 25"
    )


# ---- rings


@pytest.mark.parametrize("seed", range(5))
def test_a_dgx1v_has_six_rings_whatever_its_numbering(seed):
    machine = Topology.load("dgx1v")
    dice = random.Random(seed)
    order = list(range(len(machine.devices())))
    dice.shuffle(order)
    other, _ = renamed(
        machine, order, [f"d{i}" for i in dice.sample(range(99), 30 - 12)]
    )
    found = rings(other)
    assert sorted(ring.count for ring in found) == [2, 4]
    assert bandwidth(found) == 150.0


def cables_of(edges):
    cables = {}
    for a, b, count in edges:
        cables.setdefault(a, {})[b] = count
        cables.setdefault(b, {})[a] = count
    return cables


@quickly
@given(
    n=st.integers(3, 9), laid=st.integers(1, 3), data=st.data(), extra=st.integers(0, 4)
)
def test_cycles_that_were_laid_are_found_and_share_no_cable(n, laid, data, extra):
    counts = {}
    for _ in range(laid):
        cycle = data.draw(st.permutations([f"n{i}" for i in range(n)]))
        for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            pair = tuple(sorted((a, b)))
            counts[pair] = counts.get(pair, 0) + 1
    for _ in range(extra):
        pair = tuple(sorted(data.draw(st.permutations(list(counts)))[0]))
        counts[pair] += 1
    found = most_cycles(cables_of([(a, b, c) for (a, b), c in counts.items()]), 5.0)
    used = {}
    for cycle, count in found:
        assert sorted(cycle) == sorted({x for pair in counts for x in pair})
        for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            pair = tuple(sorted((a, b)))
            used[pair] = used.get(pair, 0) + count
    assert all(used[pair] <= counts.get(pair, 0) for pair in used)
    assert sum(count for _, count in found) >= 1


def test_where_there_is_no_cycle_none_is_found_soon():
    star = cables_of([("hub", f"n{i}", 1) for i in range(12)])
    start = time.monotonic()
    assert most_cycles(star, 1.0) == []
    bipartite = cables_of([(f"a{i}", f"b{j}", 1) for i in range(9) for j in range(8)])
    assert most_cycles(bipartite, 1.0) == []
    assert time.monotonic() - start < 30


def test_two_gpus_are_a_ring_too():
    machine = Topology("pair")
    machine.add("g0", Kind.GPU, host="h")
    machine.add("g1", Kind.GPU, host="h")
    machine.link("g0", "g1", LinkKind.NVLINK, 100.0, count=4)
    assert [(ring.count, ring.bandwidth) for ring in rings(machine)] == [(4, 25.0)]


# ---- affinity, rails, levels, orders


def test_nics_that_tie_are_shared_evenly():
    machine = Topology.load("server8")
    shares = assignment(machine)
    assert [len(nics) for nics in shares.values()] == [1] * 8
    assert len({nic for nics in shares.values() for nic in nics}) == 8
    few = assignment(Topology.load("server8", nics=4))
    assert [nics[0] for nics in few.values()][:4] == ["host0/nic0"] * 2 + [
        "host0/nic2"
    ] * 2


def test_rails_are_what_leaves_join():
    railed = Topology.load("dgx_h100", hosts=4, rail=True)
    plain = Topology.load("dgx_h100", hosts=4)
    assert [len(rail) for rail in rails(railed)] == [4] * 8
    assert is_rail_optimised(railed)
    assert not is_rail_optimised(plain)


def test_levels_go_from_numa_nodes_to_pods():
    cluster = Topology.load("dgx1v", hosts=4, hosts_per_leaf=2)
    found = {level.name: len(level.parts) for level in levels(cluster)}
    assert found == {"numa": 8, "nvlink": 4, "host": 4, "rack": 2, "pod": 1}
    assert [level.name for level in levels(Topology.load("mi250x"))][:2] == [
        "numa",
        "socket",
    ]


def test_a_ring_order_goes_along_nvlinks_and_host_by_host():
    cluster = Topology.load("dgx1v", hosts=3)
    order = ring_order(cluster)
    assert sorted(order) == sorted(gpu.id for gpu in cluster.devices(Kind.GPU))
    hosts = [gpu.split("/")[0] for gpu in order]
    assert hosts == sorted(hosts)
    for a, b in pairwise(order):
        if a.split("/")[0] == b.split("/")[0]:
            assert best_path(cluster, a, b).type is PathType.NVL


def test_a_torus_has_a_row_for_each_host():
    rows = torus_order(Topology.load("dgx_a100", hosts=3))
    assert [len(row) for row in rows] == [8, 8, 8]
    assert [gpu.split("/")[1] for gpu in rows[0]] == [
        gpu.split("/")[1] for gpu in rows[1]
    ]


@pytest.mark.parametrize("rail", range(8))
def test_a_rail_aligned_ring_crosses_hosts_on_one_rail(rail):
    cluster = Topology.load("dgx_h100", hosts=4, rail=True)
    order = rail_order(cluster, rail)
    nics = assignment(cluster)
    rail_of = {nic: i for i, group in enumerate(rails(cluster)) for nic in group}
    crossings = [
        (a, b)
        for a, b in zip(order, (*order[1:], order[0]), strict=True)
        if a.split("/")[0] != b.split("/")[0]
    ]
    assert len(crossings) == 4
    for a, b in crossings:
        assert rail_of[nics[a][0]] == rail_of[nics[b][0]]


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True), max_size=20))
def test_folded_names_expand_again(names):
    assert expand(fold(names)) == names


@pytest.mark.parametrize("wrong", ["a[", "a]", "a[x]", "a[3-1]", "a[1-]", "a[[1]]"])
def test_a_list_that_is_none_is_refused(wrong):
    with pytest.raises(TopologyError):
        expand(wrong)


def test_a_document_says_what_is_missing():
    with pytest.raises(TopologyError, match="'kind' is missing"):
        build({"collalgo": "topology/1", "devices": [{"id": "a"}]})
    with pytest.raises(TopologyError, match="2 devices at one end and 3 at the other"):
        build(
            {
                "collalgo": "topology/1",
                "devices": [{"id": "a[0-4]", "kind": "gpu"}],
                "links": [{"ends": ["a[0-1]", "a[2-4]"], "kind": "nvlink"}],
            }
        )
