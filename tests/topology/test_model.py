"""The graph, its paths, and its documents."""

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import Topology, TopologyError
from collalgo.base.hostlist import expand, fold
from collalgo.topology import best_path
from collalgo.topology.affinity import nearest_nics
from collalgo.topology.compare import differences, isomorphic
from collalgo.topology.document import build, document, text
from collalgo.topology.domains import fast_domains, levels
from collalgo.topology.link_index import LinkIndex
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.path_types import PathType
from collalgo.topology.paths import NO_PATH, matrix, paths_from, paths_in
from collalgo.topology.readers import parse
from tests.support.random_topologies import machines, renamed

quickly = settings(max_examples=60)


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


def test_the_type_of_a_path_follows_its_devices():
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
    found = paths_in(LinkIndex(machine), source, some)
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


def test_a_path_uses_nvlinks_of_another_gpu_for_one_hop_only():
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
    machine.add("c2", Kind.CPU, host="h")
    machine.link("c1", "c2", LinkKind.SMP)
    machine.add("g4", Kind.GPU, host="h")
    machine.link("g4", "c2", LinkKind.PCIE, 16.0)
    assert best_path(machine, "g0", "g4").bandwidth is None
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


def test_devices_without_a_path_are_disconnected():
    machine = small()
    machine.add("alone", Kind.GPU)
    assert best_path(machine, "g0", "alone").type is PathType.DIS
    with pytest.raises(TopologyError, match="no device 'nobody'"):
        best_path(machine, "g0", "nobody")


def test_impossible_links_are_refused_or_omitted():
    machine = small()
    with pytest.raises(TopologyError, match="there is no device x"):
        machine.link("g0", "x", LinkKind.PCIE)
    for speed in (-1.0, float("nan"), float("inf"), 10**400):
        with pytest.raises(TopologyError, match="pcie g0 - g1: a bandwidth of"):
            machine.link("g0", "g1", LinkKind.PCIE, speed)
    with pytest.raises(TopologyError, match="pcie g0 - g1: a latency of"):
        machine.link("g0", "g1", LinkKind.PCIE, 1.0, latency=10**400)
    before = len(machine.links)
    machine.link("g0", "g0", LinkKind.NVLINK, 25.0)
    assert len(machine.links) == before
    assert "a link to itself" in machine.warnings[0]


def test_an_id_that_is_taken_gets_a_suffix():
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


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True), max_size=20))
def test_folded_names_expand_again(names):
    assert expand(fold(names)) == names


@pytest.mark.parametrize("wrong", ["a[", "a]", "a[x]", "a[3-1]", "a[1-]", "a[[1]]"])
def test_an_invalid_list_is_refused(wrong):
    with pytest.raises(TopologyError):
        expand(wrong)


@settings(max_examples=20)
@given(machines())
def test_a_path_does_not_depend_on_the_targets_of_its_search(machine):
    ids = [device.id for device in machine.devices()]
    for a in ids[:4]:
        every = paths_from(machine, a)
        assert all(best_path(machine, a, b) == every.get(b, NO_PATH) for b in ids)


def test_a_missing_key_of_a_document_is_named():
    with pytest.raises(TopologyError, match="'kind' is missing"):
        build({"collalgo": "topology/1", "devices": [{"id": "a"}]})
    with pytest.raises(TopologyError, match=r"2 devices at one end and 3 at .*; make"):
        build(
            {
                "collalgo": "topology/1",
                "devices": [{"id": "a[0-4]", "kind": "gpu"}],
                "links": [{"ends": ["a[0-1]", "a[2-4]"], "kind": "nvlink"}],
            }
        )
