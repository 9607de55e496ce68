"""Files of which two places say the same thing differently, or one of them nothing."""

import pytest

from collalgo import Topology, TopologyError
from collalgo.topology.model import LinkKind


def read(tmp_path, text, name="file.txt"):
    path = tmp_path / name
    path.write_text(text)
    return Topology.read(path)


def gpu(busid, dev, links):
    return (
        f'<pci busid="{busid}" class="0x030200" link_speed="16.0 GT/s PCIe" '
        f'link_width="16"><gpu dev="{dev}" sm="80" rank="{dev}">{links}</gpu></pci>'
    )


def nvlink(target, count):
    return f'<nvlink target="{target}" count="{count}" tclass="0x030200"/>'


def two_gpus(first, second, ids=("0000:0a:00.0", "0000:0b:00.0")):
    inner = gpu(ids[0], 0, first) + gpu(ids[1], 1, second)
    return f'<system version="1"><cpu numaid="0" arch="x86_64">{inner}</cpu></system>'


def test_an_nvlink_that_one_end_lists_is_a_warning(tmp_path):
    found = read(tmp_path, two_gpus(nvlink("0000:0b:00.0", 4), ""))
    assert found.between("host0/gpu0", "host0/gpu1")[LinkKind.NVLINK].count == 4
    assert "4 cables of nvlink in one direction, 0 back; 4 are used" in str(
        found.warnings
    )


def test_bus_ids_are_the_same_in_capitals(tmp_path):
    links = nvlink("0000:0b:00.0", 4), nvlink("0000:0a:00.0", 4)
    found = read(tmp_path, two_gpus(*links, ids=("0000:0A:00.0", "0000:0B:00.0")))
    assert found.between("host0/gpu0", "host0/gpu1")[LinkKind.NVLINK].count == 4
    assert not found.warnings


def test_a_pcilink_that_both_switches_list_is_one_link(tmp_path):
    switch = (
        '<pci busid="0000:{}0:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" '
        'link_width="16">{}<pcilink target="0000:{}0:00.0"/></pci>'
    )
    inner = switch.format(1, gpu("0000:11:00.0", 0, ""), 2)
    inner += switch.format(2, gpu("0000:21:00.0", 1, ""), 1)
    text = f'<system version="1"><cpu numaid="0" arch="x86_64">{inner}</cpu></system>'
    found = read(tmp_path, text)
    assert found.between("host0/pci0", "host0/pci1")[LinkKind.PCIE].count == 1


ROCM = """
=== Weight between two GPUs ===
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
=== Hops between two GPUs ===
       GPU0         GPU1
GPU0   0            {hops}
GPU1   1            0
=== Link Type between two GPUs ===
       GPU0         GPU1
GPU0   0            {type}
GPU1   XGMI         0
=== Numa Nodes ===
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Node: 0
"""


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        (
            {"type": "XXXX"},
            "link type of GPU0 - GPU1: XXXX in one direction, XGMI back",
        ),
        ({"hops": "0"}, "hops of GPU0 - GPU1: 0 in one direction, 1 back; 1 is used"),
        ({"hops": "N/A"}, "hops of GPU0 - GPU1: N/A in one direction, 1 back"),
    ],
)
def test_a_cell_that_was_not_read_takes_that_of_the_other_direction(
    cells, warning, tmp_path
):
    found = read(tmp_path, ROCM.format(**{"type": "XGMI", "hops": "1"} | cells))
    assert LinkKind.XGMI in found.between("host0/gpu0", "host0/gpu1")
    assert any(text.startswith(warning) for text in found.warnings)


BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=n[0-1] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n[2-3] BlockSize=2
BlockName=b3 BlockIndex=2 Nodes=n[4-5] BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[0-3] BlockSize=4
AggregatedBlock=b[1-3] BlockIndex=4 Nodes=n[0-5] BlockSize=6
"""


def test_aggregated_blocks_of_scontrol_join_their_blocks(tmp_path):
    found = read(tmp_path, BLOCKS)
    assert {link.ends for link in found.links if "aggregate" in link.ends[1]} == {
        ("b1", "aggregate0"),
        ("b2", "aggregate0"),
        ("aggregate0", "aggregate1"),
        ("b3", "aggregate1"),
    }
    with pytest.raises(TopologyError, match="lists block b4, which is not defined"):
        read(tmp_path, BLOCKS.replace("b[1-3]", "b[1-4]"))


def test_all_nodes_are_not_a_node(tmp_path):
    with pytest.raises(TopologyError, match=r"s0 has Nodes=ALL, .*write the names"):
        read(tmp_path, "SwitchName=s0 Nodes=ALL\n")


def test_a_block_below_an_unknown_switch_is_a_warning(tmp_path):
    text = "switches: {core: {switches: [s1]}}\nblocks:\n"
    text += "- {switch: s1, nodes: [a]}\n- {switch: s2, nodes: [b]}\n"
    found = read(tmp_path, text, "model.yaml")
    assert "s2, the switch of a block, is not among the switches" in found.warnings


@pytest.mark.parametrize("element", ["host_link", "bypassRoute", "bypassZoneRoute"])
def test_an_element_of_simgrid_that_is_not_read_is_refused(element, tmp_path):
    text = f'<platform><zone id="z"><host id="a"/><{element} id="a"/></zone></platform>'
    with pytest.raises(TopologyError, match=f"the element {element} is not read"):
        read(tmp_path, text, "platform.xml")


def test_a_limit_of_the_nodes_of_a_cluster_is_not_left_out_in_silence(tmp_path):
    text = '<platform><cluster id="c" prefix="n" suffix="" radical="0-1" bw="1MBps" '
    text += 'lat="1us" limiter_link="1MBps"/></platform>'
    found = read(tmp_path, text, "platform.xml")
    assert "limiter_link is not part of the model" in str(found.warnings)
