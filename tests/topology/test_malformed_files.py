"""Malformed and hostile files are refused, implausible values are warnings."""

import time

import pytest

from collalgo import TopologyError
from collalgo.topology.readers import parse
from tests.support.small_files import NCCL, SMALL


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ('target="0000:12:00.0"', 'target="0000:11:00.0"', "a link to itself"),
        ('speed="100000"', 'speed="100000000"', "more than any port"),
        ('speed="100000"', 'speed="0"', "the speed 0 Mb/s means unknown"),
        ('target="0000:11:00.0"', 'target="0000:99:00.0"', "is not in the file"),
        (
            'busid="0000:12:00.0" class',
            'busid="0000:11:00.0" class',
            "occurs twice",
        ),
    ],
)
def test_a_wrong_value_is_a_warning_that_names_the_element(old, new, warning):
    assert old in NCCL
    machine = parse(NCCL.replace(old, new), "x")
    found = [text for text in machine.warnings if warning in text]
    assert found, machine.warnings
    assert "host0/" in found[0]


CLUSTER = """collalgo: topology/1
name: x
devices:
  - {id: "h[0-2]/nic0", kind: nic, host: "h[0-2]", speed: 25}
  - {id: "h[0-2]/core0", kind: core, host: "h[0-2]"}
  - {id: switch, kind: switch}
links:
  - {ends: ["h[0-2]/core0", "h[0-2]/nic0"], kind: pcie, bandwidth: 30}
  - {ends: ["h[0-2]/nic0", switch], kind: network, bandwidth: 25}
"""


def test_a_host_without_a_link_and_a_link_faster_than_its_nic_are_warnings():
    assert not parse(CLUSTER, "x").warnings
    told = parse(CLUSTER.replace('["h[0-2]/nic0"', '["h[0-1]/nic0"'), "x").warnings
    assert told == ["h2: no link leads to another host"]
    told = parse(CLUSTER.replace("bandwidth: 25", "bandwidth: 200"), "x").warnings
    assert told[0].endswith(
        "200 GB/s is more than the 25 GB/s of h0/nic0; check the unit"
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nccl_xml", 'count="2"', 'count="-2"', "-2 is not between"),
        ("nccl_xml", 'count="2"', 'count="two"', "'two' is not an integer"),
        ("nccl_xml", "<nic>", "<nick>", "invalid XML"),
        ("own", "bandwidth: 2*nv", "bandwidth: 2*nw", "neither a number nor"),
        ("own", "bandwidth: 2*nv", "bandwidth: -1", "-1 GB/s is not possible"),
        ("own", "bandwidth: 2*nv", "bandwidth: .nan", "nan GB/s is not possible"),
        ("own", "kind: nvlink", "kind: string", "no kind 'string'"),
        ("own", "parameters", "settings", "unknown key"),
        ("astra_sim", "400", "tbd", "'tbd' is not a number"),
        ("astra_sim", "[ 4, 3 ]", "[ 4 ]", "of different lengths"),
        ("slurm_conf", "s[1-2]", "s[1-3]", "lists switch s3, which is not defined"),
        ("slurm_conf", "Nodes=a[1-2]", "Switches=top", "is below itself"),
        ("slurm_conf", "a[1-2]", "a[1-99999999]", "empty or too long"),
        (
            "slurm_conf",
            "SwitchName=s1",
            "Include x.conf\nSwitchName=s1",
            "line 2: other",
        ),
        ("slurm_conf", "SwitchName=s1", "\\\n include  x\nSwitchName=s1", "lines of x"),
        ("simgrid", "<cluster", '<include file="x"/><cluster', "include is not read"),
        ("infiniband", '"S-0001"[1] ', '"S-0001"[2] ', "which leads to"),
        ("simgrid", "1Gbps", "1Gigabit", "is not a bandwidth"),
        ("simgrid", "FLAT", "FLAT", ""),
        ("htsim", "Radix_Down 4", "Radix_Down 3", "do not fill"),
        ("link_list", "3 0 100Gbps", "3 9 100Gbps", "node 9 of a link"),
        ("torus_2qos", "3 3 1", "900 900 1", "more than 100000"),
        ("jgf", '"switch"', '"thing"', "unknown kind or type 'thing'; choose from"),
        ("nvidia_smi", "PXB", "ABC", "'ABC' is not a path type"),
        ("nvidia_smi", "GPU1\tNV2\t X \tPXB\t0-7\n", "", "no row of 3 cells for GPU1"),
        ("hwloc", "1000000 50000 50000", "50000 50000", "3 values for 2 objects"),
        ("kueue", "name: n2", "name: n1", "defined twice"),
        ("topograph", "x/domain: d", "x/domain: {a: b}", "the domain of a block: "),
        ("topograph", "{switches: [leaf]}", "{labels: {z: [1]}}", "label z of core: "),
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


#: Small texts that would cost much, each with what the message says.
COSTLY = {
    "a long name times a range": (
        f"SwitchName=s Nodes={'x' * 500_000}[0-60000]",
        "longer|more than 255",
    ),
    "a range many times": (
        f"SwitchName=s Nodes=n[{'0-60000,' * 50_000}1]",
        "more than 65536 names",
    ),
    "hosts of one id": (
        "<platform><zone id='z'>" + "<host id='a'/>\n" * 60_000 + "</zone></platform>",
        "'a' is defined twice",
    ),
    "a long prefix of a cluster": (
        f'<platform><cluster id="c" prefix="{"n" * 500_000}" radical="0-60000" bw="1"/></platform>',
        "500000 characters",
    ),
    "sizes of a fat tree": (
        '<platform><cluster id="c" prefix="n" radical="0-3" bw="1" topology="FAT_TREE" '
        'topo_parameters="2;2,2;100000,100000;1,1"/></platform>',
        "links are more than",
    ),
    "small maps": (
        "\n".join(f"- {{a: {i}}}" for i in range(150_000)),
        "more than 250000 values",
    ),
    "documents": (
        "\n---\n".join(f"{{a: {i}}}" for i in range(150_000)),
        "more than 250000 values",
    ),
    "a sexagesimal number": (
        f"topology: [Ring]\nnpus_count: [{':'.join(['1'] * 400_000)}]\nbandwidth: [1]\nlatency: [1]",
        "is not an integer",
    ),
    "many axes": (
        "\n".join(
            f"{key}: [{', '.join([value] * 60_000)}]"
            for key, value in (
                ("topology", "Ring"),
                ("npus_count", "1"),
                ("bandwidth", "1"),
                ("latency", "1"),
            )
        ),
        "60000 dimensions",
    ),
    "a chain of switches": (
        "\n".join(f"SwitchName=s{i} Switches=s{i + 1}" for i in range(8000))
        + "\nSwitchName=s8000 Nodes=a",
        "more than 100 switches",
    ),
    "a large torus": (
        "- topology: t\n  torus3d: {toruses: [{name: p, dims: {x: 1000, y: 1000, z: 900}, nodes: a}]}",
        "more than 200000 nodes",
    ),
    "many NUMA nodes": (
        '<system version="1">'
        + "".join(f'<cpu numaid="{i}"/>' for i in range(40_000))
        + "</system>",
        "too many to be linked in pairs",
    ),
    "many NUMA nodes of hwloc": (
        '<topology version="2.0"><object type="Machine">'
        + "".join(
            f'<object type="NUMANode" os_index="{i}" cpuset="0x1"/>'
            for i in range(15_000)
        )
        + "</object></topology>",
        "too many to be linked in pairs",
    ),
    "levels of labels": (
        "apiVersion: kueue.x-k8s.io/v1\nkind: Topology\nmetadata: {name: d}\nspec: {levels: ["
        + ", ".join(f"{{nodeLabel: b{i}}}" for i in range(40_000))
        + "]}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {"
        + ", ".join(f"b{i}: x" for i in range(40_000))
        + "}}",
        "an id of 1001 characters",
    ),
    "many nodes of a list": (
        "600000 0 1\n\n0 1 1Gbps 1us\n",
        "is not between 1 and 200000",
    ),
}


@pytest.mark.parametrize("text", COSTLY)
def test_a_small_file_that_would_cost_much_is_refused_soon(text):
    text, message = COSTLY[text]
    start = time.process_time()
    with pytest.raises(TopologyError, match=message) as caught:
        parse(text, "x")
    assert len(str(caught.value)) < 1000
    assert time.process_time() - start < 10  # as a guard: it is less than a second


@pytest.mark.parametrize("of", ["lspci", "hwloc", "slurm_conf"])
def test_the_work_grows_with_the_size_of_a_file_only(of):
    count, start = 10_000, time.process_time()
    topology = parse(LARGE[of](count), "x")
    assert len(topology.devices()) >= count
    assert time.process_time() - start < 10  # quadratic work takes a minute


LARGE = {
    "lspci": lambda count: "\n".join(
        f"{i // 256:04x}:{i % 256:02x}:01.0/{i // 256:04x}:{i % 256:02x}:02.0 "
        "3D controller: NVIDIA"
        for i in range(count)
    ),
    "hwloc": lambda count: (
        '<topology version="2.0"><object type="Machine">'
        '<object type="NUMANode" os_index="0" cpuset="0x1"/>'
        '<object type="Bridge" bridge_type="0-1">'
        + "<object type='PCIDev' pci_type='0302 [10de:1]'/>\n" * count
        + "</object></object></topology>"
    ),
    "slurm_conf": lambda count: "\n".join(
        f"SwitchName=s{i} Nodes=n{i},n{i + 1}" for i in range(count)
    ),
}


def test_a_file_that_is_too_large_is_refused(tmp_path):
    from collalgo import Topology

    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(TopologyError, match=f"more than {32 << 20} bytes"):
        Topology.read(path)
