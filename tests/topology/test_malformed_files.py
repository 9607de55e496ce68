"""Malformed and hostile files are refused, implausible values are warnings."""

import time

import pytest

from collalgo import TopologyError
from collalgo.topology.readers import parse
from tests.support.small_files import NCCL, SMALL

pytestmark = pytest.mark.parallel


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


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nccl_xml", 'count="2"', 'count="-2"', "-2 is not between"),
        ("nccl_xml", 'count="2"', 'count="two"', "'two' is not an integer"),
        ("nccl_xml", "<nic>", "<nick>", "invalid XML"),
        ("own", "bandwidth: 2*nv", "bandwidth: 2*nw", "neither a number nor"),
        ("own", "bandwidth: 2*nv", "bandwidth: -1", "-1.0 is not possible"),
        ("own", "bandwidth: 2*nv", "bandwidth: .nan", "nan is not possible"),
        ("own", "kind: nvlink", "kind: string", "no kind 'string'"),
        ("own", "parameters", "settings", "unknown key"),
        ("astra_sim", "400", "tbd", "'tbd' is not a number"),
        ("astra_sim", "[ 4, 3 ]", "[ 4 ]", "of different lengths"),
        ("slurm_conf", "s[1-2]", "s[1-3]", "lists switch s3, which is not defined"),
        ("slurm_conf", "Nodes=a[1-2]", "Switches=top", "is below itself"),
        ("slurm_conf", "a[1-2]", "a[1-99999999]", "empty or too long"),
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
