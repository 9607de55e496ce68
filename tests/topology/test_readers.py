"""Every format is recognised and read, by a small file of each."""

import pytest

from collalgo.topology.paths import best_path
from collalgo.topology.readers import FORMATS, parse, recognise
from tests.support.small_files import AMD, INFINIBAND, NCCL, SMALL, SMI


def test_there_is_a_small_file_of_every_format():
    assert set(SMALL) == set(FORMATS)


@pytest.mark.parametrize("name", SMALL)
def test_a_format_is_recognised_and_read(name):
    text, devices, links = SMALL[name]
    assert recognise(text) == name
    topology = parse(text, "small")
    assert len(topology.devices()) == devices, topology.devices()
    assert len(topology.links) == links, topology.links


def test_values_of_a_file_are_converted_to_our_units():
    machine = parse(NCCL, "x")
    links = {link.kind.value: link for link in machine.links if link.bandwidth}
    assert links["nvlink"].bandwidth == 50.0
    assert links["nvlink"].count == 2
    assert links["smp"].bandwidth == 10.0
    assert machine.device("host0/nic0").attributes["speed"] == 12.5
    assert best_path(machine, "host0/gpu0", "host0/nic0").type.name == "PIX"
    cell = parse(SMALL["link_list"][0], "x").links[0]
    assert (cell.bandwidth, cell.latency) == (12.5, pytest.approx(1e-6))
    assert parse(AMD, "x").links[0].bandwidth == 50.0
    assert parse(SMALL["simgrid"][0], "x").links[0].bandwidth == 0.125
    assert parse(INFINIBAND, "x").links[0].bandwidth == 25.0


SIMAI = """10 4 2 0 16 H100
8 9
""" + "".join(
    f"{gpu} {switch} 2880Gbps 0.000025ms 0\n" for gpu in range(8) for switch in (8, 9)
)


def test_a_list_of_simai_has_servers_of_gpus_and_nvswitches():
    machine = parse(SIMAI, "x")
    assert machine.hosts == ["host0", "host1"]
    assert [len(machine.devices(kind)) for kind in ("gpu", "nvswitch")] == [8, 2]
    assert {(link.kind, link.bandwidth) for link in machine.links} == {
        ("nvlink", 360.0)
    }


def test_a_device_without_a_class_is_not_guessed():
    bare = '<pci busid="0000:14:00.0" link_speed="8.0 GT/s PCIe" link_width="16"/>'
    machine = parse(
        NCCL.replace("  </pci>\n </cpu>", f"   {bare}\n  </pci>\n </cpu>"), "x"
    )
    assert any("0000:14:00.0) has no class" in text for text in machine.warnings)
    assert len(machine.devices("gpu")) == 2


def test_several_hosts_in_one_file_are_distinguished():
    second = NCCL.replace("<system", "<s").partition(">")[2].replace("</system>", "")
    first = NCCL.replace("<cpu ", '<cpu host_hash="0xa" ').replace("</system>", "")
    second = second.replace("<cpu ", '<cpu host_hash="0xb" ')
    pair = parse(f"{first}{second}</system>", "x")
    assert pair.hosts == ["host0", "host1"]
    assert len(pair.devices("gpu", host="host1")) == 2
    assert best_path(pair, "host0/gpu0", "host1/gpu0").type.name == "DIS"


def test_a_narrow_uplink_is_a_warning():
    narrow = NCCL.replace('"0x060400" link_speed="8.0', '"0x060400" link_speed="2.5')
    found = [text for text in parse(narrow, "x").warnings if "upwards" in text]
    assert found == [
        "pcie host0/pci0 - host0/cpu0: 4 GB/s upwards is less than half of the 15.8 GB/s "
        "of each device below"
    ]


def test_a_matrix_gives_the_paths_that_it_shows():
    machine = parse(SMI, "x")
    assert best_path(machine, "host0/gpu0", "host0/nic0").type.name == "PIX"
    assert best_path(machine, "host0/gpu1", "host0/nic0").type.name == "PXB"
    wrapped = SMI.replace("\tGPU0\tGPU1\tmlx5_0", "\tGPU0\n\tGPU1\tmlx5_0")
    assert parse(wrapped, "x").links == machine.links
    glued = SMI.replace("GPU0\tGPU1\tmlx5", "GPU0GPU1\tmlx5", 1)
    assert len(parse(glued.replace("GPU0GPU1", "GPU0\tGPU1"), "x").devices()) == 7


def test_rows_in_another_order_are_the_same_matrix():
    header, *rows = SMI.splitlines()
    turned = "\n".join([header, *reversed(rows)])
    assert parse(turned, "x").devices() == parse(SMI, "x").devices()


def test_virtual_functions_in_lspci_are_no_ports_beside_their_nic():
    above = "00:01.0"
    physical = f"{above}/04:00.0 Ethernet controller: Intel Ethernet Controller X710\n"
    virtual = "".join(
        f"{above}/04:02.{number} Ethernet controller: Intel Ethernet Virtual Function\n"
        for number in range(3)
    )
    for text, count in ((physical + virtual, 1), (physical, 1), (virtual, 3)):
        assert len(parse(text, "x").devices("nic")) == count
