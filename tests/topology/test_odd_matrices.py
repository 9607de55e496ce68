"""Odd matrices of nvidia-smi and rocm-smi are read rightly or refused."""

import pytest

from collalgo import TopologyError
from collalgo.topology.model import LinkKind
from collalgo.topology.paths import best_path
from collalgo.topology.readers import parse
from collalgo.topology.show import matrix
from tests.support.smi_matrices import about, paths, smi

SIZES = (1, 2, 3, 5, 7, 8, 12, 16)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cell", ["PIX", "PHB", "NODE", "NV4"])
def test_a_matrix_of_any_size_has_its_gpus_numa_nodes_and_cores(size, cell):
    text = smi(paths(size, lambda i, k: cell), lambda i: "64-95\t3\t\tN/A")
    machine = parse(text, "x")
    assert len(machine.devices("gpu")) == size
    (cpu,) = machine.devices("cpu")
    assert (cpu.attributes["numa"], cpu.attributes["cores"]) == (3, "64-95")
    rows = matrix(machine).splitlines()[1:]
    assert [row.split("\t")[-2:] for row in rows] == [["64-95", "3"]] * size


@pytest.mark.parametrize("size", [2, 3, 8])
def test_columns_that_run_together_are_parted_or_refused(size):
    text = smi(paths(size, lambda i, k: "NV12")).replace("\t", "  ")
    last = f"GPU{size - 1}"
    header = text.replace(f"{last}  CPU", f"{last}CPU")
    assert len(parse(header, "x").devices("gpu")) == size
    glued = header.replace("NV12  0-31", "NV120-31")
    machine = parse(glued, "x")
    assert len(machine.devices("gpu")) == size
    assert about(machine, "NV120-31", "is read as NV12 and 0-31")
    both = glued.replace("NV12 ", "NV120-3 ")
    with pytest.raises(TopologyError, match=r"'NV120-31?' is not a path type"):
        parse(both, "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nGPU2 PIX PIX X", "GPU2 has a row but no"),
        (" GPU0 GPU1\nGPU0 X PIX PIX\nGPU1 PIX X PIX", "row of GPU0 has more than 2"),
        (" GPU0 GPU1\nGPU0 PIX X\nGPU1 PIX X", "GPU0 - GPU0: PIX is not possible"),
        (" GPU0 GPU1\nGPU0 X X\nGPU1 PIX X", "GPU0 - GPU1: X is not possible"),
        (" GPU0 GPU1\nGPU0 X NV99\nGPU1 NV99 X", "'NV99' is not a path type"),
        (" GPU0\nGPU0 X\nGPU0 X 0-3", "line 3: GPU0 has two rows, which differ"),
    ],
)
def test_a_matrix_that_cannot_be_is_refused_with_its_row(text, message):
    with pytest.raises(TopologyError, match=message):
        parse(text, "x")


@pytest.mark.parametrize("size", [4, 5, 8, 16])
def test_gpus_of_one_node_stay_there_though_nvlinks_hide_their_paths(size):
    """One without NVLinks is far from those of the other node, as it should be."""
    half, bare = size // 2, size // 2 - 1

    def path(i, k):
        if bare not in (i, k):
            return "NV12"
        return "NODE" if (i < half) == (k < half) else "SYS"

    node = [int(i >= half) for i in range(size)]
    text = smi(
        paths(size, path), lambda i: f"{32 * node[i]}-{32 * node[i] + 31}\t{node[i]}"
    )
    machine = parse(text, "x")
    assert [cpu.attributes["numa"] for cpu in machine.devices("cpu")] == [0, 1]
    assert not about(machine, "SYS apart")
    rows = matrix(machine).splitlines()[1:]
    assert [int(row.split("\t")[-1]) for row in rows] == node


@pytest.mark.parametrize("size", [3, 5, 8, 16])
def test_a_matrix_that_contradicts_itself_is_a_warning_of_what_was_made(size):
    bare = smi(paths(size, lambda i, k: "SYS" if size - 1 in (i, k) else "NV2"))
    assert about(parse(bare, "x"), f"GPU{size - 1} without NVLinks")
    far = parse(smi(paths(size, lambda i, k: "SYS")), "x")
    assert about(far, "of NUMA node 0 but SYS apart")
    assert best_path(far, "host0/gpu0", "host0/gpu1").type.name == "SYS"
    near = smi(paths(size, lambda i, k: "PHB"), lambda i: f"0-31\t{i}")
    machine = parse(near, "x")
    assert about(machine, "near each other but of the NUMA nodes 0, 1, 2")
    numa = [gpu.attributes["numa"] for gpu in machine.devices("gpu")]
    assert numa == list(range(size))
    crossed = smi(paths(size, lambda i, k: "PIX" if abs(i - k) < 2 else "NODE"))
    assert about(parse(crossed, "x"), "GPU0 - GPU2 is NODE, taken as PIX")
    listed = smi(paths(size, lambda i, k: "NODE"), lambda i: "0-71\t0,3-9")
    machine = parse(listed, "x")
    assert about(machine, "of the NUMA nodes 0,3-9, 0 is used")
    assert matrix(machine).splitlines()[1].endswith("0-71\t0,3-9")


def xgmi(
    size, kind="XGMI", hops="1", weight="15", access="ENABLED", bandwidth="50000-50000"
):
    """The tables of amd-smi, without empty lines; values of the pair 0 - 1."""
    ids = [f"0000:{i:02x}:00.0" for i in range(size)]

    def table(title, value, other, diagonal):
        rows = [
            [
                diagonal if i == k else value if i + k == 1 else other
                for k in range(size)
            ]
            for i in range(size)
        ]
        lines = [" ".join([id, *row]) for id, row in zip(ids, rows, strict=True)]
        return "\n".join([f"{title} TABLE:", " ".join(ids), *lines])

    return "\n".join(
        [
            table("ACCESS", access, "ENABLED", "ENABLED"),
            table("WEIGHT", weight, "15", "0"),
            table("HOPS", hops, "1", "0"),
            table("LINK TYPE", kind, "XGMI", "SELF"),
            table("NUMA BW", bandwidth, "50000-100000", "N/A"),
        ]
    )


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"bandwidth": "0-0", "weight": "30"}, "bandwidth 0-0"),
        ({"bandwidth": "N/A", "weight": "30"}, "weight 30"),
        ({"hops": "2"}, "2 hops"),
        ({"access": "DISABLED"}, "access is DISABLED"),
        ({"kind": "N/A"}, "could not read"),
    ],
)
def test_a_pair_without_an_xgmi_link_of_its_own_gets_none(size, values, reason):
    machine = parse(xgmi(size, **values), "x")
    links = {link.ends for link in machine.links if link.kind is LinkKind.XGMI}
    assert len(links) == size * (size - 1) // 2 - 1
    assert ("host0/gpu0", "host0/gpu1") not in links
    assert about(machine, "host0/gpu0 - host0/gpu1", reason)
    assert best_path(machine, "host0/gpu0", "host0/gpu1").type.name == "NVB"
    assert not parse(xgmi(size), "x").warnings


ROCM = """=== Link Type between two GPUs ===
       GPU0  GPU1
GPU0   0     XGMI
GPU1   XGMI  0

======== Numa Nodes ========
"""


@pytest.mark.parametrize(
    "line", ["GPU[{}]\t\t: ", "GPU[{}]          : ", "GPU {}          : "]
)
def test_numa_nodes_of_all_versions_of_rocm_smi_are_read(line):
    lines = [f"{line.format(i)}(Topology) Numa Node: {3 - i}" for i in range(2)]
    for text in (ROCM + "\n".join(lines), "\n".join(lines)):
        machine = parse(text, "x")
        assert [cpu.attributes["numa"] for cpu in machine.devices("cpu")] == [3, 2]
        assert not about(machine, "unknown NUMA node")
