"""Files of real machines and of other tools: read, or refused with the reason."""

import re
import time

import pytest

from collalgo import Topology, TopologyError
from collalgo.topology.affinity import assignment, nearest_nics
from collalgo.topology.compare import isomorphic
from collalgo.topology.domains import fast_domains, levels
from collalgo.topology.paths import best_path
from collalgo.topology.rings import bandwidth, rings
from tests.support.shared_files import FOLDER, files, needs_files

pytestmark = needs_files

#: What holds no topology, and what the message must say.
REFUSED = {
    "amd_smi/p2p_caps_amdsmi.txt": "none of LINK TYPE",
    "astra_sim/ns3_sample_16nodes_1D.json": "are only the dimensions of a network",
    "astra_sim/ns3_sample_8nodes_1D.json": "are only the dimensions of a network",
    "flux_graph/sierra.graphml": "a recipe",
    "hwloc_linux_sysfs/fakepcilocalities.tar.bz2": "not a text file",
    "ib_fabric/netq_computeNodes.json": "without links",
    "ib_fabric/superbench_hostfile": "unknown format",
    "ib_fabric/superbench_ibstat.txt": "unknown format",
    "kueue/multikueue_tas_worker-setup.yaml": "no nodes",
    "kueue/sample-queues.yaml": "no nodes",
    "kueue/xpk_gke_default_topology.yaml": "no nodes",
    "measured/simai_nvlink_ratio.csv": "unknown format",
    "nvidia_smi_topo/p2p_r_h100x8.txt": "-p2p has permissions, not paths",
    "taccl/sk1-dgx2-n2.json": "a sketch",
    "taccl/sk1-ndv2-n2.json": "a sketch",
    "taccl/sk2-dgx2-n2.json": "a sketch",
}


def read(name):
    return Topology.read(FOLDER / name)


@pytest.mark.parametrize("name", files())
def test_a_file_is_read_or_refused_with_the_reason(name):
    start = time.process_time()
    if name in REFUSED:
        with pytest.raises(TopologyError, match=re.escape(REFUSED[name])):
            read(name)
    else:
        topology = read(name)
        assert topology.devices()
        assert topology.source
    assert time.process_time() - start < 10, "a file takes seconds"


@pytest.mark.parametrize("name", [name for name in files() if name not in REFUSED])
def test_what_is_written_is_read_back_the_same(name, tmp_path):
    topology = read(name)
    if len(topology.links) > 2000:
        pytest.skip("YAML of ten thousand links takes long")
    for form in ("yaml", "json"):
        path = tmp_path / f"machine.{form}"
        topology.write(path)
        again = Topology.read(path)
        assert again.devices() == topology.devices()
        assert [d.attributes for d in again.devices()] == [
            d.attributes for d in topology.devices()
        ]
        assert again.links == topology.links


DGX1V = [
    lambda: Topology.load("dgx1v"),
    lambda: read("nvidia_smi_topo/dgx1v_ucxx.txt"),
    lambda: read("taccl/topo-ndv2-1MB.json"),
]


@pytest.mark.parametrize("source", DGX1V)
def test_a_dgx1v_is_the_same_machine_from_three_sources(source):
    machine = source()
    assert isomorphic(machine, Topology.load("dgx1v"), "gpu", bandwidth=False)
    links = [link for link in machine.links if link.kind == "nvlink"]
    assert sum(link.count for link in links) == 24
    ends = {gpu.id: 0 for gpu in machine.devices("gpu")}
    for link in links:
        for end in link.ends:
            ends[end] += link.count
    assert set(ends.values()) == {6}
    assert sorted(ring.count for ring in rings(machine)) == [2, 4]


def test_the_matrix_of_a_dgx1v_has_its_pcie_tree_too():
    machine = read("nvidia_smi_topo/dgx1v_ucxx.txt")
    assert isomorphic(machine, Topology.load("dgx1v"), bandwidth=False)
    assert bandwidth(rings(machine)) == 150.0


def types(machine, gpu):
    return [
        best_path(machine, f"host0/gpu{gpu}", nic.id).type.name
        for nic in machine.devices("nic")
    ]


def test_gpus_and_nics_of_clouds_have_their_path_types():
    oracle = read("nccl_xml/oci_bm.gpu.h100.8.xml")
    assert types(oracle, 0)[:4] == ["PIX", "PIX", "PHB", "PHB"]
    assert types(oracle, 0)[8] == "SYS"
    assert nearest_nics(oracle, "host0/gpu1") == ["host0/nic2", "host0/nic3"]
    azure = read("nccl_xml/azure_ndv4.xml")
    assert types(azure, 0) == ["PIX", "PIX", *["SYS"] * 6]
    assert assignment(azure)["host0/gpu1"] == ["host0/nic1"]
    amazon = read("nccl_xml/aws_p4d.24xlarge.xml")
    assert types(amazon, 2) == ["PHB", "PIX", "SYS", "SYS"]


def test_two_levels_of_a_broadcom_switch_are_merged():
    machine = read("nccl_xml/oci_bm.gpu.h100.8.xml")
    assert len(machine.devices("pci")) == 8
    assert any("is merged into" in text for text in machine.warnings)


def test_links_of_an_mi250x_are_counted():
    machine = read("nccl_xml/rccl_8p1h_3.xml")
    counts = sorted(link.count for link in machine.links if link.kind == "xgmi")
    assert counts == [1] * 6 + [2] * 2 + [4] * 4
    assert isomorphic(machine, Topology.load("mi250x"), "gpu", bandwidth=False)


def test_virtual_functions_of_nics_are_known_as_their_ports():
    machine = read("hwloc_xml/hwloc_16intel64-manyVFs.xml")
    names = [nic.name.split()[0] for nic in machine.devices("nic")]
    assert names == ["eth0", "eth1", "eth4", "eth5", "eth6", "eth7"]


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("hwloc_xml/hwloc_nvidiaDGX2.xml", 16),
        ("nvidia_smi_topo/a100x8_nv12.txt", 8),
        ("nvidia_smi_topo/h100x8_nv18.txt", 8),
        ("nccl_xml/oci_bm.gpu.h100.8.xml", 8),
    ],
)
def test_nvswitches_make_one_domain(name, gpus):
    assert [len(domain) for domain in fast_domains(read(name))] == [gpus]


def test_two_hives_of_gpus_are_two_domains():
    domains = fast_domains(read("nccl_xml/rccl_4p3l_2h.xml"))
    assert [len(domain) for domain in domains] == [4, 4]


def test_zero_widths_and_links_to_itself_are_warnings():
    machine = read("nccl_xml/azure_ncv4.xml")
    assert any("link to itself" in text for text in machine.warnings)
    pcie = next(link for link in machine.links if link.kind == "pcie")
    assert any("16 lanes" in text for text in pcie.assumed)


def test_a_fabric_of_infiniband_has_its_levels():
    fabric = read("ib_fabric/superbench_ibnetdiscover.txt")
    assert {link.bandwidth for link in fabric.links} <= {25.0, None}
    found = [(level.name, len(level.parts)) for level in levels(fabric)]
    assert found == [("host", 10), ("rack", 5), ("pod", 2), ("level 3", 1)]


@pytest.mark.parametrize(
    ("name", "hosts", "leaf", "size"),
    [
        ("slurm/test_133_case6_topology.conf", 40, "leafA1", 8),
        ("slurm/check_block_topology.conf", 32, "b1", 4),
    ],
)
def test_switches_of_slurm_have_their_nodes(name, hosts, leaf, size):
    cluster = read(name)
    assert len(cluster.hosts) == hosts
    below = [
        link
        for link in cluster.links_of(leaf)
        if cluster.device(link.other(leaf)).kind == "host"
    ]
    assert len(below) == size


def test_grids_of_simulators_are_grids():
    torus = read("simgrid/cluster_torus.xml")
    assert len(torus.links) == 12 * 2  # two cables where a dimension has two places
    assert len(read("astra_sim/tpu_v3_32_2dtorus.yml").links) == 64
    assert len(read("htsim/leaf_spine_tiny.topo").devices("switch")) == 6
