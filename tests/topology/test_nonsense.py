"""What a file says that cannot be is a warning of what is taken, or is refused."""

import codecs
from itertools import product

import pytest

from collalgo import Topology, TopologyError
from collalgo.cost.link_model import LinkModel
from collalgo.topology import values
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.readers import parse
from tests.support.small_files import NCCL, SMALL


def about(topology, *words):
    """The warnings that have all these words."""
    return [text for text in topology.warnings if all(word in text for word in words)]


def tables(style, size, **changed):
    """Tables of links between GPUs; ``changed`` has cells of one direction 0 to 1."""
    labels = [
        f"0000:{i:02x}:00.0" if style == "amd" else f"GPU{i}" for i in range(size)
    ]
    values = {"WEIGHT": "15", "HOPS": "1", "LINK TYPE": "XGMI"}
    if style == "amd":
        values["NUMA BW"] = "50000-50000"
    parts = []
    for title, value in values.items():
        cells = [[value if i != k else "0" for k in range(size)] for i in range(size)]
        cells[0][1] = changed.get(title.replace(" ", "_").lower(), value)
        name = f"{title} TABLE:" if style == "amd" else f"= {title} between two GPUs ="
        rows = [f"{a} {' '.join(row)}" for a, row in zip(labels, cells, strict=True)]
        parts.append("\n".join([name, " ".join(labels), *rows]))
    return "\n\n".join(parts)


def link_of(topology):
    """The link of GPUs 0 and 1, or None."""
    ends = ("host0/gpu0", "host0/gpu1")
    return topology.between(*ends).get(LinkKind.XGMI)


CONTRADICTIONS = [
    ("amd", "numa_bw", "10000-10000", 10.0, "10000-10000 in one direction"),
    ("amd", "numa_bw", "50000-1", 50.0, "'50000-1' is not a range of MB/s"),
    ("amd", "numa_bw", "-1-50000", 50.0, "'-1-50000' is not a range of MB/s"),
    ("amd", "numa_bw", "1-1", 0.001, "0.001 GB/s is less than any such cable"),
    ("amd", "numa_bw", "fast", 50.0, "'FAST' is not a range of MB/s"),
    *(
        (style, *rest)
        for style in ("amd", "rocm")
        for rest in (
            ("hops", "one", ..., "'ONE' is not a number"),
            ("hops", "3", None, "3 in one direction, 1 back"),
            ("weight", "-15", ..., "'-15' is not a number"),
            ("weight", "30", ..., "30 in one direction, 15 back"),
            ("link_type", "XGMX", ..., "'XGMX' is not a link type"),
            ("link_type", "PCIE", None, "PCIE in one direction, XGMI back"),
        )
    ),
]


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize(("style", "table", "cell", "speed", "warning"), CONTRADICTIONS)
def test_a_table_that_contradicts_itself_is_a_warning(
    style, table, cell, speed, warning, size
):
    assert not about(parse(tables(style, size), "x"), "0000:00:00.0 - ")
    machine = parse(tables(style, size, **{table: cell}), "x")
    (found,) = about(machine, warning)
    assert (
        "host0/gpu0 - host0/gpu1" in found
        or ("0000:00:00.0 - 0000:01:00.0" if style == "amd" else "GPU0 - GPU1") in found
    )
    link = link_of(machine)
    if speed is None:
        assert link is None
    elif speed is not ...:
        assert link.bandwidth == speed


@pytest.mark.parametrize("style", ["amd", "rocm"])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_second_table_or_row_is_the_same_or_refused(style, size):
    text = tables(style, size)
    assert len(parse(f"{text}\n\n{text}", "x").links) == len(parse(text, "x").links)
    with pytest.raises(TopologyError, match="a second table of HOPS differs"):
        parse(f"{text}\n\n{tables(style, size, hops='2')}", "x")
    last = text.splitlines()[-1]
    with pytest.raises(TopologyError, match="has two rows, which differ"):
        parse(f"{text}\n{last}9", "x")
    alien = last.replace("GPU", "GPU9").replace("0000:", "9999:")
    with pytest.raises(TopologyError, match="has a row but no column"):
        parse(f"{text}\n{alien}", "x")


@pytest.mark.parametrize("size", [2, 3, 8])
def test_links_that_their_ends_count_differently_are_a_warning(size):
    count = 'target="0000:11:00.0" count="2"'
    assert count in NCCL
    assert not about(parse(NCCL, "x"), "direction")
    machine = parse(NCCL.replace(count, count.replace("2", str(size + 2))), "x")
    (found,) = about(machine, "host0/gpu0 - host0/gpu1", f"{size + 2} back")
    assert "2 cables of nvlink in one direction" in found
    hwloc = SMALL["hwloc"][0].replace("50000 50000", f"50000 {size}0000")
    (found,) = about(parse(hwloc, "x"), f"{size}0000 MB/s in one", "50000 back")


NATIVE = """collalgo: topology/1
name: x
devices:
  - {id: host0/nic0, kind: nic, host: host0, speed: 12.5}
  - {id: host0/cpu0, kind: cpu, host: host0, cores: 0-7}
links:
  - {ends: [host0/nic0, host0/cpu0], kind: pcie, bandwidth: 15.75, latency: 1.0e-6}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("speed: 12.5", "speed: -3", "line 4: host0/nic0: a port of -3 GB/s is not"),
        ("speed: 12.5", "speed: 0", "a port of 0 GB/s is not possible"),
        ("speed: 12.5", "speed: 1e300", "1e.300 is not between|is not possible"),
        ("latency: 1.0e-6", "latency: -1", "line 7: .* a latency of -1 s is not"),
        ("latency: 1.0e-6", "latency: 11", "a latency of 11 s is not possible"),
        ("latency: 1.0e-6", "latency: .nan", "a latency of nan s is not possible"),
        ("bandwidth: 15.75", "bandwidth: 1e-10", "1e-10 GB/s is not possible"),
        ("bandwidth: 15.75", "bandwidth: 2e9", r"2e\+09 GB/s is not possible"),
        ("cores: 0-7", "cores: 99-1", "cores: '99-1' is not a list of cores"),
        ("cores: 0-7", "allowed: 5-3", "allowed: '5-3' is not a list of cores"),
        ("name: x", "maker: nonsense", "maker: 'nonsense' is not the mark"),
        ("name: x", "maker: [1]", "is not the mark"),
        ("name: x", r'name: "a\e[31m"', "has the control character"),
        ("host: host0, speed", r'host: "a\nb", speed', "has the control character"),
        ("id: host0/nic0", r'id: "host0/n\x07"', r"'host0/n\\x07' has the control"),
    ],
)
def test_a_native_file_with_nonsense_is_refused(old, new, message):
    assert old in NATIVE
    parse(NATIVE, "x")
    with pytest.raises(TopologyError, match=message):
        parse(NATIVE.replace(old, new, 1), "x")


@pytest.mark.parametrize("cores", ["99-1", "5-3", "0-3,9-8", "all", "0-", "0x1-2"])
@pytest.mark.parametrize("column", ["CPU", "NUMA"])
def test_an_affinity_that_is_no_list_is_ignored_with_a_warning(cores, column):
    head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity"
    rest = f"{cores}\t0" if column == "CPU" else f"0-3\t{cores}"
    text = f"{head}\nGPU0\tX\tPHB\t{rest}\nGPU1\tPHB\tX\t0-3\t0"
    machine = parse(text, "x")
    assert about(machine, f"GPU0: {column} affinity {cores!r} is not", "ignored")
    attributes = machine.device("host0/gpu0").attributes
    assert ("affinity" if column == "CPU" else "numa") not in attributes
    assert not about(parse(text.replace(cores, "0-3,7-8,9"), "x"), "ignored")


#: How a file may be stored, each with what becomes of its text.
ENCODINGS = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "BOM": lambda text: text.encode("utf-8-sig"),
    "BOM and CRLF": lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 of the other order": lambda text: (
        codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    ),
    "UTF-32": lambda text: text.encode("utf-32"),
}


def read(tmp_path, data):
    path = tmp_path / "machine"
    path.write_bytes(data)
    return Topology.read(path)


@pytest.mark.parametrize(("name", "encoding"), [*product(SMALL, ENCODINGS)])
def test_a_file_of_every_format_and_encoding_is_read_alike(name, encoding, tmp_path):
    text, devices, links = SMALL[name]
    machine = read(tmp_path, ENCODINGS[encoding](text))
    assert (len(machine.devices()), len(machine.links)) == (devices, links)
    assert machine.warnings == parse(text, "machine").warnings


def test_names_that_are_not_utf8_stay_apart(tmp_path):
    text = NATIVE.replace("host0/nic0", "b\xe9").replace("host0/cpu0", "b\xe8")
    machine = read(tmp_path, text.encode("latin-1"))
    assert [device.id for device in machine.devices()] == ["b\xe9", "b\xe8"]
    assert about(machine, f"byte {text.index(chr(0xE9))} is not UTF-8", "Latin-1")
    for data in (NATIVE.encode("utf-16-le"), codecs.BOM_UTF16_LE + b"x"):
        with pytest.raises(TopologyError, match=r"not a text file|unknown format"):
            read(tmp_path, data)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("left", [0, 1])
def test_a_matrix_that_is_cut_in_its_last_row_is_a_warning(size, left):
    labels = [f"GPU{i}" for i in range(size)]
    rows = [
        "\t".join([a, *("X" if a == b else "NV2" for b in labels), "0-31", "0"])
        for a in labels
    ]
    text = "\n".join(["\t".join(["", *labels, "CPU Affinity", "NUMA Affinity"]), *rows])
    assert not about(parse(text, "x"), "truncated")
    cut = "\t".join(text.split("\t")[: left - 2])
    machine = parse(cut, "x")
    if size > 1 or not left:
        assert about(machine, f"row of GPU{size - 1} has {left} columns", "truncated")


@pytest.mark.parametrize(
    ("name", "end", "warning"),
    [
        ("slurm_conf", "SwitchName=s2", "switch s2 lists neither nodes nor switches"),
        ("slurm_conf", "SwitchName=s2 Nodes=", "its line may be truncated"),
        ("lspci", "80:01.0/81:00.0 3D", "line 5: a device without a class"),
        ("lspci", "80:01.0/", "line 5: a device without a class"),
        ("kueue", "\n---\napiVersion: v1", "1 objects without a kind are ignored"),
        ("kueue", "\n---\napiVersion: v1\nkind:", "1 objects without a kind"),
    ],
)
def test_a_text_that_is_cut_in_its_last_line_is_a_warning(name, end, warning):
    text = SMALL[name][0]
    assert not about(parse(text, "x"), warning)
    at = text.rindex(end)
    assert about(parse(text[: at + len(end)], "x"), warning)


@pytest.mark.parametrize("line", ["BlockName=b2", "BlockName=b2 Nodes="])
def test_a_block_or_a_ring_of_nothing_is_a_warning(line):
    for kind in ("Block", "Ring"):
        text = f"BlockName=b1 Nodes=n[1-4]\n{line}".replace("Block", kind)
        assert about(parse(text, "x"), f"{kind.lower()} b2 lists neither nodes")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("efficiency: {nvlink: 1.0e-300}", "nvlink: 1e-300 is not between 0.001 and 1"),
        ("efficiency: {nvlink: 0}", "nvlink: 0 is not between 0.001 and 1"),
        ("assumed: {pcie: 1.0e-9}", "pcie: 1e-09 is not between 1e-06 and 1e.09"),
        ("latency: {NVL: 2}", "NVL: 2 is not between 0 and 1"),
    ],
)
def test_figures_that_no_link_has_are_refused(values, message, tmp_path):
    path = tmp_path / "figures.yaml"
    path.write_text(f"collalgo: figures/1\n{values}\n")
    with pytest.raises(TopologyError, match=message):
        LinkModel.read(path)


def integers_as(what, of):
    topology = Topology("two")
    for id in "ab":
        topology.add(id, Kind.HOST)
    if what == "count":
        topology.link("a", "b", LinkKind.NETWORK, 1.0, count=of)
    elif what == "bandwidth":
        topology.link("a", "b", LinkKind.NETWORK, of)
    elif what in ("number", "integer"):
        getattr(values, what)(of, "a test")
    elif what == "dims":
        Topology.load("torus", dims=(of, 2))
    else:
        Topology.load("dgx1v", **{what: of})


@pytest.mark.parametrize("digits", [20, 400, 5000])
@pytest.mark.parametrize(
    "what", ["count", "bandwidth", "number", "integer", "dims", "hosts", "nics", "rate"]
)
def test_integers_of_many_digits_are_refused_whatever_their_length(what, digits):
    with pytest.raises(TopologyError):
        integers_as(what, 10**digits)
    with pytest.raises(TopologyError):
        integers_as(what, -(10**digits))
