"""Files of which two places say the same thing differently, or one of them nothing."""

import pytest

from collalgo import Topology, TopologyError
from collalgo.cost.bounds import bound
from collalgo.topology.model import LinkKind
from collalgo.topology.readers import parse


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


def cluster(hosts, limits):
    return (
        f'<platform><cluster id="c" prefix="n" suffix="" radical="0-{hosts - 1}" '
        f'bw="1GBps" lat="1us" {limits}/></platform>'
    )


@pytest.mark.parametrize("hosts", [1, 2, 3, 8, 17])
def test_hosts_of_a_cluster_share_its_backbone_and_their_limit(hosts, tmp_path):
    for limits, speed, latency in (
        ("", 1.0, 1e-6),
        ('bb_bw="1GBps" bb_lat="4us"', 1 / hosts, 3e-6),
        ('bb_bw="100GBps" bb_lat="4us"', 1.0, 3e-6),
        ('bb_bw="500MBps" bb_sharing_policy="FATPIPE"', 0.5, 1e-6),
        ('limiter_link="1GBps"', 0.5, 1e-6),
        ('limiter_link="1GBps" bb_bw="500MBps"', 0.5 / hosts, 1e-6),
    ):
        found = read(tmp_path, cluster(hosts, limits), "platform.xml")
        assert {link.bandwidth for link in found.links} == {speed}
        assert found.links[0].latency == pytest.approx(latency)
        assert bool(found.warnings) == (speed < 1.0)


def test_a_backbone_bounds_what_all_hosts_exchange(tmp_path):
    found = read(tmp_path, cluster(8, 'bb_bw="1GBps"'), "platform.xml")
    sent = 8 * 7 / 8 * 1e9  # bytes of all hosts together, each to each an eighth
    assert bound("alltoall", found).seconds(1e9) == pytest.approx(sent / 1e9)


def routes(*lines, links="xyz"):
    hosts = "".join(f'<host id="{name}"/>' for name in "ab")
    speeds = dict(zip(links, (1, 2, 3), strict=False))
    given = "".join(
        f'<link id="{name}" bandwidth="{speed}GBps" latency="1us"/>'
        for name, speed in speeds.items()
    )
    return f'<platform><zone id="q">{hosts}{given}{"".join(lines)}</zone></platform>'


def route(source, target, *links, ways="NO", direction=None):
    inner = "".join(
        f'<link_ctn id="{name}"'
        + (f' direction="{direction}"/>' if direction else "/>")
        for name in links
    )
    return f'<route src="{source}" dst="{target}" symmetrical="{ways}">{inner}</route>'


@pytest.mark.parametrize("ways", ["NO", "no", "False", "0"])
def test_a_route_without_one_back_is_refused(ways, tmp_path):
    text = routes(route("a", "b", "x", ways=ways))
    with pytest.raises(TopologyError, match="from a to b is one-way, and a route back"):
        read(tmp_path, text, "platform.xml")
    assert read(tmp_path, routes(route("a", "b", "x", ways="YES")), "p.xml").links


@pytest.mark.parametrize("back", [("x",), ("y",), ("x", "y"), ("z", "x")])
def test_routes_there_and_back_are_one_of_the_narrower(back, tmp_path):
    for there, other in ((("x",), back), (back, ("x",))):
        text = routes(route("a", "b", *there), route("b", "a", *other))
        found = read(tmp_path, text, "platform.xml")
        assert bound("broadcast", found).bandwidth == pytest.approx(1.0)
        assert bool(found.warnings) == (set(back) != {"x"})


@pytest.mark.parametrize("direction", ["LEFT", "up", ""])
def test_a_direction_of_no_link_is_refused(direction, tmp_path):
    text = routes(route("a", "b", "x", ways="YES", direction=direction or " "))
    with pytest.raises(TopologyError, match="is not one of DOWN, NONE, UP"):
        read(tmp_path, text, "platform.xml")
    for right in ("UP", "DOWN", "NONE", None):
        text = routes(route("a", "b", "x", ways="YES", direction=right))
        assert not read(tmp_path, text, "platform.xml").warnings


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("s1 Level=1 Nodes=a,b", "s1 has Level=1 but lists no switches"),
        (
            "s1 Level=1 Switches=s2\nSwitchName=s2 Level=1 Nodes=a,b",
            "s1 of Level=1 lists switch s2 of Level=1, which must be lower",
        ),
        (
            "s1 Level=0 Switches=s2\nSwitchName=s2 Level=0 Nodes=a,b",
            "s1 of Level=0 lists switch s2 of Level=0",
        ),
        ("s1 Level=x Nodes=a,b", "Level of s1: 'x' is not an integer"),
        ("s1 Nodes=n*", r"'n\*' is a pattern; list the names"),
        ("s1 Nodes=n?,b", r"'n\?' is a pattern"),
        ("s1 Nodes=n{1,2}", "is a pattern"),
        ("s1 Switches=s[1-2]*", "is a pattern"),
    ],
)
def test_levels_and_names_that_contradict_the_lines_are_refused(
    lines, message, tmp_path
):
    with pytest.raises(TopologyError, match=message):
        read(tmp_path, f"SwitchName={lines}\n")


@pytest.mark.parametrize("lossy", [1, 2, 3])
def test_an_error_rate_of_a_link_is_a_warning(lossy, tmp_path):
    rates = [0.01] * lossy + [0] * (3 - lossy)
    text = "4 1 3\n3\n" + "".join(
        f"3 {i} 100Gbps 1us {rate}\n" for i, rate in enumerate(rates)
    )
    found = read(tmp_path, text)
    several = "links" if lossy > 1 else "link"
    assert f"{lossy} {several} with an error rate (line 3: 0.01)" in found.warnings[0]
    assert not read(tmp_path, text.replace("0.01", "0")).warnings
    for wrong in ("1.5", "-0.1", "e", "1-2"):
        with pytest.raises(TopologyError, match="line 3: error rate: "):
            read(tmp_path, text.replace("0.01", wrong))


def test_gpus_of_one_number_or_one_rank_are_a_warning():
    def system(*gpus):
        inner = "".join(
            gpu(f"0000:0{i}:00.0", dev, "").replace(f'rank="{dev}"', f'rank="{rank}"')
            for i, (dev, rank) in enumerate(gpus)
        )
        text = (
            f'<system version="1"><cpu numaid="0" arch="x86_64">{inner}</cpu></system>'
        )
        return [w for w in parse(text, "x").warnings if "have one" in w]

    assert system((0, 0), (0, 1)) == ["host0/gpu0 and host0/gpu1 have one dev, 0"]
    assert system((0, 0), (1, 0)) == ["host0/gpu0 and host0/gpu1 have one rank, 0"]
    assert not system((0, 0), (1, 1))
    assert not system((0, -1), (1, -1))
