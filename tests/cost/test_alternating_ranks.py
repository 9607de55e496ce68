"""Prices and bounds do not depend on how ranks are numbered across equal hosts."""

from itertools import product

import numpy as np
import pytest

from collalgo import Topology
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.lower_bound import AS_LOW
from collalgo.cost.machine_parameters import MachineFeatures
from collalgo.cost.placement import Placement
from collalgo.cost.simulation import simulate
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule.collective import COLLECTIVES
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.places import host_after_host, ranks_of

ROOTED = [name for name in BOUNDED if COLLECTIVES[name].rooted]

MACHINES = list(product([2, 4], [0, 1]))


def equal_hosts(hosts, nic_at=0, numbering="host by host"):
    """Hosts of a slow pair of GPUs, one of which has the NIC."""
    topology = Topology(f"{hosts} hosts")
    topology.add("switch", Kind.SWITCH)
    for host in range(hosts):
        topology.add(f"h{host}/nic", Kind.NIC, host=f"h{host}")
    places = list(product(range(hosts), range(2)))
    if numbering == "alternating":
        places.sort(key=lambda place: place[1])
    elif numbering == "last host first":
        places.sort(key=lambda place: -place[0])
    for host, gpu in places:
        topology.add(f"h{host}/gpu{gpu}", Kind.GPU, host=f"h{host}")
    for host in (f"h{number}" for number in range(hosts)):
        slow = f"{host}/gpu0", f"{host}/gpu1"
        topology.link(*slow, LinkKind.NVLINK, 5.0, latency=100e-6)
        topology.link(f"{host}/gpu{nic_at}", f"{host}/nic", LinkKind.PCIE, 20.0)
        topology.link(f"{host}/nic", "switch", LinkKind.NETWORK, 20.0)
    return topology


NUMBERINGS = ["alternating", "last host first"]


@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize(("hosts", "nic_at"), MACHINES)
@pytest.mark.parametrize("collective", BOUNDED)
def test_a_bound_is_that_of_the_device_of_its_root(
    collective, hosts, nic_at, numbering
):
    other = equal_hosts(hosts, nic_at, numbering)
    in_order = equal_hosts(hosts, nic_at)
    for rank, device in enumerate(ranks_of(other)):
        found = bound(collective, other, rank)
        expected = bound(collective, in_order, ranks_of(in_order).index(device))
        assert found.latency == expected.latency, device
        assert found.per_byte == expected.per_byte, device
        assert found.exact == expected.exact, device


@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize(("hosts", "nic_at"), MACHINES)
@pytest.mark.parametrize("collective", ROOTED)
def test_no_price_is_below_the_bound(collective, hosts, nic_at, numbering):
    machine = equal_hosts(hosts, nic_at, numbering)
    for name, root in product(["linear", "k_nomial"], range(2 * hosts)):
        found = simulate(name, machine, 1, collective=collective, root=root)
        assert found.seconds >= found.bound.seconds(1) * (1 - AS_LOW), (name, root)


@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize(("hosts", "nic_at"), MACHINES)
def test_routes_are_those_of_the_same_devices(hosts, nic_at, numbering):
    other = equal_hosts(hosts, nic_at, numbering)
    in_order = equal_hosts(hosts, nic_at)
    ranks = range(2 * hosts)
    source, target = (each.ravel() for each in np.meshgrid(ranks, ranks))
    for order in (host_after_host(in_order), ranks_of(other)):
        latency, expected = (
            Placement(machine, order).routes.link_loads(source, target)[0]
            for machine in (other, in_order)
        )
        assert latency.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("root", range(4))
def test_a_pair_of_hosts_may_alternate_too(root):
    pair = equal_hosts(2, 1, "alternating")
    found = bound("gather", UniformCluster("pair", pair, 2), root)
    expected = bound("gather", UniformCluster("pair", equal_hosts(2, 1), 2), root)
    assert found.latency == expected.latency


def test_the_first_host_is_that_of_the_first_rank():
    features = MachineFeatures(Placement(equal_hosts(2, 0, "alternating")))
    assert features.first_host[1] == ["h0/gpu0", "h0/gpu1"]
    assert features.cycles_along(features.placement.devices) == []
