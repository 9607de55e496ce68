"""Every format by a small file of our own, its traps, and hostile input."""

import json
import time

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import TopologyError
from collalgo.topology.paths import best_path
from collalgo.topology.readers import FORMATS, parse, recognise
from tests.support.mutation import mutated

pytestmark = pytest.mark.parallel

NCCL = """<system version="1">
 <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
  <pci busid="0000:10:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
   <pci busid="0000:11:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="70" rank="0" gdr="1">
     <nvlink target="0000:12:00.0" count="2" tclass="0x030200"/>
    </gpu>
   </pci>
   <pci busid="0000:12:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
    <gpu dev="1" sm="70" rank="1" gdr="1">
     <nvlink target="0000:11:00.0" count="2" tclass="0x030200"/>
    </gpu>
   </pci>
   <pci busid="0000:13:00.0" class="0x020700" link_speed="" link_width="0">
    <nic><net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x1"/></nic>
   </pci>
  </pci>
 </cpu>
 <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"/>
</system>"""

SMI = """\x1b[4m\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\x1b[0m
GPU0\t X \tNV2\tPIX\t0-7
GPU1\tNV2\t X \tPXB\t0-7
mlx5_0\tPIX\tPXB\t X \t
"""

ROCM = """======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
============================ Hops between two GPUs =============================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
========================== Link Type between two GPUs ==========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== Numa Nodes ==================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[1]\t\t: (Topology) Numa Affinity: 1
"""

AMD = """LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 SELF         XGMI
0000:22:00.0 XGMI         SELF

NUMA BW TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 N/A          50000-50000
0000:22:00.0 50000-50000  N/A
"""

LSPCI = """00:00.0 Host bridge: Intel Corporation Device
00:01.0/01:00.0/02:00.0/03:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)
00:01.0/01:00.0/02:01.0/04:00.0 Infiniband controller: Mellanox MT28908
00:02.0/05:00.0 VGA compatible controller: ASPEED Technology
80:01.0/81:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)
"""

HWLOC = """<topology version="2.0"><object type="Machine" os_index="0" gp_index="1">
 <object type="Package" os_index="0" gp_index="2">
  <object type="NUMANode" os_index="0" gp_index="3" cpuset="0x000000ff"/>
  <object type="Bridge" gp_index="4" bridge_type="0-1">
   <object type="PCIDev" gp_index="5" pci_busid="0000:01:00.0"
     pci_type="0302 [10de:1db1] [10de:1212] a1" pci_link_speed="15.753846">
     <object type="OSDev" gp_index="6" name="cuda0" osdev_type="5"/></object>
   <object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0"
     pci_type="0302 [10de:1db1] [10de:1212] a1" pci_link_speed="15.753846">
     <object type="OSDev" gp_index="8" name="cuda1" osdev_type="5"/></object>
   <object type="PCIDev" gp_index="9" pci_busid="0000:03:00.0"
     pci_type="0300 [102b:0522] [0000:0000] 05" pci_link_speed="0.25"/>
  </object></object></object>
 <distances2hetero nbobjs="2" kind="9" name="NVLinkBandwidth">
  <indexes length="15">OSDev:6 OSDev:8 </indexes>
  <u64values length="30">1000000 50000 50000 1000000 </u64values>
 </distances2hetero></topology>"""

INFINIBAND = """switchguid=0x1(1)
Switch 36 "S-0001"   # "leaf one" enhanced port 0 lid 1 lmc 0
[1] "H-0001"[1](2)   # "node1 mlx5_0" lid 2 4xHDR
[2] "H-0002"[1](3)   # "node2 mlx5_0" lid 3 4xHDR
[41] "H-0009"[1](9)  # "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Ca 1 "H-0001"        # "node1 mlx5_0"
[1](2) "S-0001"[1]   # lid 2 lmc 0 "leaf one" lid 1 4xHDR

Ca 1 "H-0002"        # "node2 mlx5_0"
[1](3) "S-0001"[2]   # lid 3 lmc 0 "leaf one" lid 1 4xHDR

Ca 1 "H-0009"        # "Mellanox Technologies Aggregation Node"
[1](9) "S-0001"[41]  # lid 9 lmc 0 "leaf one" lid 1 4xHDR
"""

YAML_NODES = """apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: default}
spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {block: b1, rack: r1}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {block: b1, rack: r2}}
"""

TORUS_YAML = """- topology: t
  torus3d:
    toruses:
      - name: pod
        dims: {x: 3, y: 2, z: 1}
        nodes: n[1-6]
"""

#: A file of every format: what it is called, its text, devices, links.
SMALL = {
    "nccl_xml": (NCCL, 6, 6),
    "nccl_graph": (
        '<graphs version="1"><graph id="0" pattern="4" speedintra="20" typeintra="NVL">'
        '<channel><gpu dev="0"/><gpu dev="1"/><gpu dev="a"/></channel></graph></graphs>',
        3,
        3,
    ),
    "hwloc": (HWLOC, 4, 4),
    "simgrid": (
        '<platform version="4.1"><zone id="z"><cluster id="c" prefix="n" suffix="" '
        'radical="0-3" bw="1Gbps" lat="50us"/></zone></platform>',
        5,
        4,
    ),
    "graphml": (
        '<graphml><key id="k" for="node" attr.name="kind" attr.type="string"/>'
        '<key id="b" for="edge" attr.name="bandwidth" attr.type="double"/><graph '
        'edgedefault="undirected"><node id="a"><data key="k">gpu</data></node>'
        '<node id="s"><data key="k">pci</data></node><edge source="a" target="s">'
        '<data key="b">12.5</data></edge></graph></graphml>',
        2,
        1,
    ),
    "own": (
        "collalgo: topology/1\nparameters: {nv: 25}\ndevices: [{id: 'gpu[0-2]', kind: gpu}]"
        "\nlinks: [{ends: ['gpu[0-1]', 'gpu[1-2]'], kind: nvlink, bandwidth: 2*nv}]",
        3,
        2,
    ),
    "slurm_yaml": (TORUS_YAML, 6, 9),
    "kueue": (YAML_NODES, 5, 4),
    "topograph": (
        "switches: {core: {switches: [leaf]}}\n"
        "blocks: [{switch: leaf, nodes: ['n[1-3]'], annotations: {x/domain: d}}]",
        5,
        4,
    ),
    "astra_sim": (
        "topology: [ Switch, Ring ]\nnpus_count: [ 4, 3 ]\nbandwidth: [ 400, 50 ]\n"
        "latency: [ 500, 1000 ]",
        15,
        24,
    ),
    "taccl": (
        json.dumps(
            {
                "name": "x",
                "gpus_per_node": 4,
                "nics_per_node": 2,
                "alpha": 0.3,
                "node_invbws_list": [8],
                "remote_invbw": 80,
            }
        ),
        7,
        8,
    ),
    "netq": (
        json.dumps(
            [
                {
                    "links": [
                        {"src": "l", "target": "h", "compounded_links": [{}, {}]}
                    ],
                    "nodes": [{"id": "l", "device_type": "switch"}, {"id": "h"}],
                }
            ]
        ),
        2,
        1,
    ),
    "jgf": (
        json.dumps(
            {
                "graph": {
                    "nodes": {
                        "h": {"metadata": {"type": "host"}},
                        "s": {"metadata": {"type": "switch"}},
                    },
                    "edges": [{"source": "h", "target": "s"}],
                }
            }
        ),
        2,
        1,
    ),
    "amd_smi": (AMD, 2, 1),
    "rocm_smi": (ROCM, 4, 4),
    "nvidia_smi": (SMI, 7, 7),
    "infiniband": (INFINIBAND, 3, 2),
    "torus_2qos": ("# 2D\ntorus 3 3 1\nxp_link 0x1 0x2\n", 9, 18),
    "slurm_conf": (
        "SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=a[1-2]\n"
        "SwitchName=s2 Nodes=b[1-3] # five\n",
        8,
        7,
    ),
    "htsim": (
        "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\n"
        "Radix_Up 2\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\n",
        12,
        12,
    ),
    "lspci": (LSPCI, 7, 6),
    "link_list": (
        "4 1 3\n3\n3 0 100Gbps 0.001ms 0\n3 1 100Gbps 1us 0\n3 2 100Gbps 1us 0\n",
        4,
        3,
    ),
}


def test_there_is_a_small_file_of_every_format():
    assert set(SMALL) == set(FORMATS)


@pytest.mark.parametrize("name", SMALL)
def test_a_format_is_recognised_and_read(name):
    text, devices, links = SMALL[name]
    assert recognise(text) == name
    topology = parse(text, "small")
    assert len(topology.devices()) == devices, topology.devices()
    assert len(topology.links) == links, topology.links


def test_the_figures_of_a_file_arrive_in_our_units():
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


def test_several_hosts_in_one_file_are_told_apart():
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


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ('target="0000:12:00.0"', 'target="0000:11:00.0"', "a link to itself"),
        ('speed="100000"', 'speed="100000000"', "more than any port"),
        ('speed="100000"', 'speed="0"', "speed of 0 Mb/s is not known"),
        ('target="0000:11:00.0"', 'target="0000:99:00.0"', "is not in the file"),
        (
            'busid="0000:12:00.0" class',
            'busid="0000:11:00.0" class',
            "is taken already",
        ),
    ],
)
def test_a_wrong_value_is_a_warning_that_names_the_element(old, new, warning):
    assert old in NCCL
    machine = parse(NCCL.replace(old, new), "x")
    found = [text for text in machine.warnings if warning in text]
    assert found, machine.warnings
    assert "host0/" in found[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nccl_xml", 'count="2"', 'count="-2"', "-2 is not between"),
        ("nccl_xml", 'count="2"', 'count="two"', "'two' is no integer"),
        ("nccl_xml", "<nic>", "<nick>", "no well-formed XML"),
        ("own", "bandwidth: 2*nv", "bandwidth: 2*nw", "neither a number nor"),
        ("own", "bandwidth: 2*nv", "bandwidth: -1", "-1.0 is not possible"),
        ("own", "bandwidth: 2*nv", "bandwidth: .nan", "nan is not possible"),
        ("own", "kind: nvlink", "kind: string", "no kind 'string'"),
        ("own", "parameters", "settings", "which is not known"),
        ("astra_sim", "400", "tbd", "'tbd' is no number"),
        ("astra_sim", "[ 4, 3 ]", "[ 4 ]", "of different lengths"),
        ("slurm_conf", "s[1-2]", "s[1-3]", "s3 below it, which is not defined"),
        ("slurm_conf", "Nodes=a[1-2]", "Switches=top", "is below itself"),
        ("slurm_conf", "a[1-2]", "a[1-99999999]", "empty or too long"),
        ("infiniband", '"S-0001"[1] ', '"S-0001"[2] ', "which leads to"),
        ("simgrid", "1Gbps", "1Gigabit", "is no bandwidth"),
        ("simgrid", "FLAT", "FLAT", ""),
        ("htsim", "Radix_Down 4", "Radix_Down 3", "do not fill"),
        ("link_list", "3 0 100Gbps", "3 9 100Gbps", "node 9 of a link"),
        ("torus_2qos", "3 3 1", "900 900 1", "more than 100000"),
        ("jgf", '"switch"', '"thing"', "its kind or type is 'thing'"),
        ("nvidia_smi", "PXB", "ABC", "'ABC' is no kind of path"),
        ("nvidia_smi", "GPU1\tNV2\t X \tPXB\t0-7\n", "", "no row of 3 cells for GPU1"),
        ("hwloc", "1000000 50000 50000", "50000 50000", "3 values for 2 objects"),
        ("kueue", "name: n2", "name: n1", "there twice"),
        ("topograph", "['n[1-3]']", "['n[1-3]', n1]", "in two blocks"),
    ],
)
def test_a_wrong_file_is_refused_with_the_element(name, old, new, message):
    text = SMALL[name][0]
    if old == new:  # a control: the file itself is right
        parse(text, "x")
        return
    assert old in text
    with pytest.raises(TopologyError, match=r"^x: ") as caught:
        parse(text.replace(old, new), "x")
    assert message in str(caught.value)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE system [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
    + "]><system>&j;</system>"
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "<system>" * 100_000,
        "<system>" + "<cpu>" * 500 + "</cpu>" * 500 + "</system>",
        "switches: {a: {}}\nblocks: " + "[" * 5000,
        '{"graph": {"nodes": ' + "[" * 100_000,
        "collalgo: topology/1\na: &a [x]\nb: [*a, *a]",
        "SwitchName=s Nodes=n[0-99999][0-99999]",
        "collalgo: topology/1\ndevices: [{id: 'g[0-999999999]', kind: gpu}]",
        "topology: [ FullyConnected ]\nnpus_count: [ 90000 ]\nbandwidth: [1]\nlatency: [1]",
        "torus 1000 1000 1000",
        "x" * (2 << 20),
        "",
        "\0\0\0",
        "GPU0 " * 100_000,
        "=" * 900_000,
        "\n" * 900_000 + "x",
        "<!-- -->" * 8000,
        "SwitchName=s Nodes=" + "a," * 400_000,
        "w" * 1_000_000,
    ],
    ids=range(19),
)
def test_hostile_input_is_refused_soon(text):
    start = time.process_time()
    with pytest.raises(TopologyError):
        parse(text, "x")
    assert time.process_time() - start < 10


def test_a_file_that_is_too_large_is_refused(tmp_path):
    from collalgo import Topology

    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(TopologyError, match="more than 32 MiB"):
        Topology.read(path)


@settings(max_examples=40, deadline=None)
@given(dice=st.randoms(use_true_random=False))
@pytest.mark.parametrize("name", SMALL)
def test_a_mutated_file_is_read_or_refused(name, dice):
    texts = [text for text, _, _ in SMALL.values()]
    try:
        parse(mutated(SMALL[name][0], texts, dice), "x")
    except TopologyError as error:
        assert str(error).startswith("x: ")
