"""Machines with faults: what is lost, what is slow, and what is named."""

import pickle

import pytest

from collalgo import Topology, TopologyError
from collalgo.cost.bounds import bound
from collalgo.cost.placement import Placement
from collalgo.topology.faults import Faults
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network


def ends(topology):
    return {(*sorted(link.ends), link.kind): link.bandwidth for link in topology.links}


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12])
def test_only_the_named_link_is_lost_or_slow(size):
    whole = network(size, seed=size)
    for link in whole.links:
        name = "-".join(reversed(link.ends))
        key = (*sorted(link.ends), link.kind)
        rest = ends(whole)
        speed = rest.pop(key)
        assert ends(whole.without(name)) == rest
        assert ends(whole.degraded(name, 0.25)) == {**rest, key: speed / 4}
    assert ends(whole.without()) == ends(whole)


def test_a_device_is_lost_with_its_links_and_a_host_with_its_devices():
    whole = Topology.load("dgx1v", hosts=2)
    rest = whole.without("host1/nic0")
    assert {d.id for d in whole.devices()} - {d.id for d in rest.devices()} == {
        "host1/nic0"
    }
    assert all("host1/nic0" not in link.ends for link in rest.links)
    assert whole.without("host0").hosts == ["host1"]
    slow = whole.degraded("host1/nic0", 0.5)
    for key, speed in ends(whole).items():
        factor = 0.5 if "host1/nic0" in key else 1
        assert ends(slow)[key] == speed * factor


def test_the_original_is_left_as_it_is_and_faults_add_up():
    whole = Topology.load("dgx1v")
    before = pickle.dumps(ends(whole))
    slow = whole.degraded("gpu0-gpu3", 0.5).degraded("gpu0-gpu3", 0.5)
    key = ("host0/gpu0", "host0/gpu3", LinkKind.NVLINK)
    assert ends(slow)[key] == ends(whole)[key] / 4
    assert key not in ends(slow.without("gpu0-gpu3"))
    assert pickle.dumps(ends(whole)) == before


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_an_element_with_two_faults_is_refused_by_any_of_its_names(size):
    whole = network(size, seed=size)
    for link in whole.links:
        a, b = link.ends
        names = f"{a}-{b}", f"{b} - {a}"
        for faults in (
            Faults(slow=((names[0], 0.5), (names[1], 0.25))),
            Faults(slow=((names[0], 0.5), (names[1], 0.5))),
            Faults(lost=names),
            Faults(lost=names[:1], slow=((names[1], 0.5),)),
        ):
            with pytest.raises(TopologyError, match="has two faults") as caught:
                faults.of(whole)
            assert all(name in str(caught.value) for name in names)


def test_of_two_elements_with_one_link_the_slower_decides():
    whole = Topology.load("dgx1v")
    key = ("host0/gpu0", "host0/gpu3", LinkKind.NVLINK)
    for fractions in ((0.5, 0.25), (0.25, 0.5), (0.25, 0.25), (1.0, 0.25)):
        for names in (("gpu0", "gpu3"), ("host0", "gpu0-gpu3"), ("gpu0", "gpu0-gpu3")):
            slow = Faults(slow=tuple(zip(names, fractions, strict=True))).of(whole)
            assert ends(slow)[key] == ends(whole)[key] / 4
    part = Faults(lost=("gpu0-gpu3",), slow=(("host0", 0.5),)).of(whole)
    assert key not in ends(part)


@pytest.mark.parametrize("name", ["host0/gpu1-gpu5", "gpu1-host0/gpu5"])
def test_a_host_is_named_where_several_have_such_a_link(name):
    whole = Topology.load("dgx1v", hosts=2)
    with pytest.raises(
        TopologyError, match=r"'gpu1-gpu5' may be host0/gpu1-host0/gpu5"
    ):
        whole.without("gpu1-gpu5")
    (lost,) = set(ends(whole)) - set(ends(whole.without(name)))
    assert lost == ("host0/gpu1", "host0/gpu5", LinkKind.NVLINK)


@pytest.mark.parametrize(
    "name", ["", "-", "gpu0", "gpu9", "gpu0-gpu5", "gpu0-", "host2", "gpu"]
)
def test_a_name_of_nothing_or_of_several_is_refused(name):
    with pytest.raises(TopologyError, match=r"there is no device|may be"):
        Topology.load("dgx1v", hosts=2).without(name)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_a_link_has_every_name_that_the_library_prints(size):
    whole = network(size, seed=size)
    for link in whole.links:
        a, b = link.ends
        rest = ends(whole)
        del rest[(*sorted(link.ends), link.kind)]
        way = f"{link.kind.value} from {a} to {b}"
        for name in (str(link), way, f"{a} - {b}", f" {b} -> {a} ", f"{a} <-> {b}"):
            assert ends(whole.without(name)) == rest
    other = LinkKind.PCIE if link.kind is not LinkKind.PCIE else LinkKind.SMP
    with pytest.raises(TopologyError, match="there is no device, host or link"):
        whole.without(f"{other.value} {a} - {b}")


@pytest.mark.parametrize("name", [None, 3, ("gpu0", "gpu1"), b"gpu0"])
def test_a_name_that_is_no_text_is_refused(name):
    machine = Topology.load("dgx1v")
    for refused in (lambda: machine.without(name), lambda: machine.degraded(name, 0.5)):
        with pytest.raises(TopologyError, match="is not the name of a device"):
            refused()


@pytest.mark.parametrize("factor", [1e-11, 1e-300, 5e-324])
def test_a_fraction_that_leaves_no_possible_speed_is_refused(factor):
    for name in ("gpu0-gpu3", "host0", "nic0"):
        with pytest.raises(TopologyError, match=r"GB/s is not possible; .*without\(\)"):
            Topology.load("dgx1v").degraded(name, factor)


@pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan"), "0.5", None, 1j])
def test_a_fraction_is_above_0_and_at_most_1(factor):
    with pytest.raises(TopologyError, match="above 0 and at most 1"):
        Topology.load("dgx1v").degraded("gpu0-gpu3", factor)


def test_names_with_hyphens_are_found():
    topology = Topology("racks", "a test")
    for name in ("a-1", "a", "1-b", "b-2"):
        topology.add(name, Kind.HOST)
    topology.link("a-1", "b-2", LinkKind.NETWORK, 1.0)
    topology.link("a-1", "a", LinkKind.NETWORK, 1.0)
    assert len(topology.without("a-1-b-2").links) == 1
    topology.link("a", "1-b", LinkKind.NETWORK, 1.0)
    assert len(topology.without("a-1-b").links) == 2


def test_a_speed_that_is_assumed_later_is_as_slow():
    topology = Topology("unknown", "a test")
    for name in ("a", "b"):
        topology.add(name, Kind.HOST)
    topology.link("a", "b", LinkKind.NETWORK)
    slow = topology.degraded("a-b", 0.5)
    assert bound("broadcast", slow).bandwidth == pytest.approx(12.5 / 2)
    (link,) = slow.links
    assert link.assumed
    model = Placement(slow).link_model
    given = type(model)(assumed={"network": 50.0})
    assert bound("broadcast", slow, link_model=given).bandwidth == pytest.approx(25)


def test_a_partition_names_the_ranks_that_are_out_of_reach():
    apart = Topology.load("dgx1v", hosts=2).without(
        *(f"host1/nic{i}" for i in range(4))
    )
    routes = Placement(apart).routes
    with pytest.raises(TopologyError, match=r"cannot reach host1/gpu\[0-7\]"):
        routes.route("host0/gpu0", "host1/gpu3")
    with pytest.raises(TopologyError, match=r"cannot reach host1/gpu\[0-7\]"):
        bound("allgather", apart)


@pytest.mark.parametrize("host", [0, 1])
def test_ranks_between_which_others_would_have_to_forward_are_named(host):
    lost = f"host{host}/gpu0"
    apart = Topology.load("dgx_h100", hosts=2).without(f"{lost}-host{host}/pci0")
    with pytest.raises(TopologyError, match=f"forward no messages; remove {lost}, too"):
        bound("allgather", apart)


@pytest.mark.parametrize("factor", [0, 2, 1e-300])
def test_a_refused_fraction_names_the_method_that_removes(factor):
    with pytest.raises(TopologyError, match=r"by without\(\)"):
        Topology.load("dgx1v").degraded("gpu0-gpu3", factor)
