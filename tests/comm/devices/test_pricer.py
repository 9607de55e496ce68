"""Where ranks with arrays on devices are, and what is chosen for them."""

import json

import pytest

from collalgo import Topology
from collalgo.comm.devices import device_pricing as pricer
from collalgo.topology import document as exchange
from collalgo.topology.model import Kind


def told(buses, topology=None, host="here", bandwidth=3000.0):
    """What ranks with the devices of some places on the bus of a host tell."""
    parts = [{"identity": host, "bus": bus, "bandwidth": bandwidth} for bus in buses]
    if topology is not None:
        machine = json.loads(json.dumps(exchange.document(topology)))
        parts[0] |= {"machine": machine, "cores": [0], "gpus": []}
    return parts


def host_of(name):
    """A host with eight GPUs, and the places of these on its bus."""
    topology = Topology.load(name)
    gpus = topology.devices(Kind.GPU)
    for number, gpu in enumerate(gpus):
        gpu.attributes["busid"] = f"0000:{number + 16:02x}:00.0"
    for cpu in topology.devices(Kind.CPU):
        cpu.attributes.setdefault("cores", "0-3")
    return topology, [f"{number + 16:02x}:00.0" for number in range(len(gpus))]


def names(found, *sizes):
    choices = found.choices("allreduce")
    return [found.runnable(choices.at(nbytes)).name for nbytes in sizes]


def test_devices_of_a_host_are_found_by_their_place_on_the_bus():
    topology, _ = host_of("dgx_h100")
    buses = [f"0000:{number + 16:02x}:00.0" for number in (3, 1, 6)]
    found = pricer.pricer_of(told(buses, topology))
    assert [place.split("/")[-1] for place in found.placement.devices] == [
        topology.devices(Kind.GPU)[i].id.split("/")[-1] for i in (3, 1, 6)
    ]


def test_the_links_decide():
    """Behind switches short calls are other than long; a ring follows the NVLinks."""
    topology, _ = host_of("dgx_h100")
    buses = [f"0000:{number + 16:02x}:00.0" for number in range(8)]
    short, long = names(pricer.pricer_of(told(buses, topology)), 1024, 1 << 28)
    assert short != long
    mesh, _ = host_of("dgx1v")
    assert "ring" in pricer.pricer_of(told(buses, mesh)).features.placements


@pytest.mark.parametrize("buses", [["10:00.0"] * 4, ["7f:00.0", "80:00.0"]])
def test_a_device_that_is_shared_or_not_known_is_its_memory(buses):
    """Ranks that share a device share its memory: twice as many take twice as long."""
    topology, _ = host_of("dgx_h100")
    found = pricer.pricer_of(told([f"0000:{bus}" for bus in buses], topology))
    assert found.size == len(buses)
    assert "one device" in found.basis
    whole, half = (
        pricer.shared(len(buses), bandwidth).choices("broadcast").at(1 << 28).price
        for bandwidth in (3000.0, 1500.0)
    )
    twice = pytest.approx(2 * whole.seconds(1 << 28), rel=0.05)
    assert half.seconds(1 << 28) == twice


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_is_reduced_is_read_twice(ranks):
    """In one step each rank reduces all, in two its part: so long calls take two."""
    short, long = names(pricer.shared(ranks, 3352.0), 1024, 1 << 28)
    assert (short, long) == ("one_shot", "two_shot")


def test_all_ranks_choose_the_same():
    topology, _ = host_of("dgx_a100")
    buses = [f"0000:{number + 16:02x}:00.0" for number in range(8)]
    parts = json.dumps(told(buses, topology))
    sizes = [1 << k for k in range(3, 30)]
    first, second = (pricer.pricer_of(json.loads(parts)) for _ in range(2))
    assert names(first, *sizes) == names(second, *sizes)
