"""Detection of the local machine, of a synthetic sysfs, and by several ranks."""

import os
import sys
import tarfile
from types import SimpleNamespace

import pytest

import collalgo
from collalgo import Topology
from collalgo.base.cpu_list import cores_of
from collalgo.topology.assumed import with_assumed_speeds
from collalgo.topology.detect import detect
from collalgo.topology.document import document
from collalgo.topology.nvml import add_nvlinks
from collalgo.topology.paths import best_path
from collalgo.topology.ranks import identity, merge, visible_gpus
from tests.support.shared_files import FOLDER, needs_files


def pci(
    root, path, pci_class, vendor="0x10de", numa=0, speed="16.0 GT/s PCIe", nets=()
):
    """Add a device below its bridges to a synthetic sysfs."""
    folder = root / "devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (
        ("class", pci_class), ("vendor", vendor), ("numa_node", str(numa)),
        ("current_link_speed", speed), ("current_link_width", "16"), ("device", "0x1"),
    ):  # fmt: skip
        (folder / name).write_text(f"{value}\n")
    link = root / "bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    for net in nets:
        (folder / "net" / net).mkdir(parents=True)
        (root / "class/net" / net).mkdir(parents=True)
        (root / "class/net" / net / "speed").write_text("100000\n")


@pytest.fixture
def sysfs(tmp_path):
    """Two NUMA nodes; a switch with a GPU and a NIC, and a GPU at a port of its own."""
    for node, cores in ((0, "0-3"), (1, "4-7")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cores)
    up = "pci0000:00/0000:00:01.0"
    pci(tmp_path, up, "0x060400", "0x8086")
    pci(tmp_path, f"{up}/0000:01:00.0", "0x060400", "0x1000")
    pci(tmp_path, f"{up}/0000:01:00.0/0000:02:00.0", "0x060400", "0x1000")
    pci(tmp_path, f"{up}/0000:01:00.0/0000:02:01.0", "0x060400", "0x1000")
    pci(tmp_path, f"{up}/0000:01:00.0/0000:02:00.0/0000:03:00.0", "0x030200")
    pci(tmp_path, f"{up}/0000:01:00.0/0000:02:01.0/0000:04:00.0", "0x020000", "0x15b3",
        nets=("eth9",))  # fmt: skip
    pci(tmp_path, "pci0000:80/0000:80:01.0", "0x060400", "0x8086", numa=1)
    pci(tmp_path, "pci0000:80/0000:80:01.0/0000:81:00.0", "0x030200", numa=1, speed="?")
    pci(tmp_path, "pci0000:00/0000:00:1f.0", "0x030000", "0x1a03")  # a console
    return tmp_path


def test_a_tree_of_pcie_is_read_from_sysfs(sysfs):
    machine = detect(sysfs, "box")
    assert [len(machine.devices(kind)) for kind in ("gpu", "nic", "pci", "cpu")] == [
        2, 1, 1, 2,
    ]  # fmt: skip
    assert best_path(machine, "box/gpu0", "box/nic0").type.name == "PIX"
    assert best_path(machine, "box/gpu0", "box/gpu1").type.name == "SYS"
    nic = machine.device("box/nic0")
    assert (nic.name, nic.attributes["speed"]) == ("eth9", 12.5)
    link = next(machine.links_of("box/gpu0"))
    assert link.bandwidth == pytest.approx(31.5, rel=1e-2)
    assert next(machine.links_of("box/gpu1")).bandwidth is None


def test_the_virtual_functions_of_a_nic_are_known_as_one_port(sysfs):
    bridge = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0"
    physical = sysfs / "devices" / bridge / "0000:04:00.0"
    for number, end in ((2, "00.2"), (10, "01.2")):
        address = f"{bridge}/0000:04:{end}"
        pci(sysfs, address, "0x020000", "0x15b3", nets=(f"eth9v{number}",))
        function = sysfs / "devices" / address
        (function / "physfn").symlink_to(physical)
        (physical / f"virtfn{number}").symlink_to(function)
    machine = detect(sysfs, "box")
    (nic,) = machine.devices("nic")
    assert nic.name == "eth9 eth9v2 eth9v10"
    assert nic.attributes["speed"] == 12.5
    assert best_path(machine, "box/gpu0", "box/nic0").type.name == "PIX"


@needs_files
def test_a_real_sysfs_is_read(tmp_path):
    archive = FOLDER / "hwloc_linux_sysfs/fakepcilocalities.tar.bz2"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="tar")
    machine = detect(tmp_path / "fakepcilocalities/sys", "box")
    assert len(machine.devices("cpu")) == 4
    names = [nic.name for nic in machine.devices("nic")]
    assert names[:4] == ["eth0", "eth1", "eth2", "eth3"]


def test_the_local_machine_is_detected():
    machine = Topology.detect()
    assert machine.devices("cpu")
    allowed = set()
    for cpu in machine.devices("cpu"):
        allowed |= cores_of(cpu.attributes.get("allowed", ""))
    assert allowed == os.sched_getaffinity(0)


def where(comm):
    machine = Topology.of(comm)
    return machine.hosts, [
        cpu.attributes.get("ranks") for cpu in machine.devices("cpu")
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranks_on_one_host_see_one_host(size):
    for hosts, ranks in collalgo.threads(where, size):
        assert hosts == ["host0"]
        assert sorted(r for group in ranks if group for r in group) == list(range(size))


def test_hosts_are_distinguished_and_ranks_are_placed(sysfs):
    machine = document(detect(sysfs, "host"))
    parts = [
        {"identity": name, "machine": machine, "cores": cores}
        for name, cores in (("a", [0, 1]), ("b", [6]), ("a", [5]), ("b", [0, 4, 5]))
    ]
    world = merge(parts)
    assert world.hosts == ["host0", "host1"]
    assert len(world.devices("gpu")) == 4
    ranks = {c.id: c.attributes.get("ranks") for c in world.devices("cpu")}
    assert ranks == {
        "host0/cpu0": [0], "host0/cpu1": [2], "host1/cpu0": None, "host1/cpu1": [1, 3],
    }  # fmt: skip
    assert identity() == identity()


def test_ranks_are_placed_on_their_assigned_gpus(sysfs, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert visible_gpus() == [1, 0]
    machine = document(detect(sysfs, "host"))
    parts = [
        {"identity": "a", "machine": machine, "cores": [0], "gpus": gpus}
        for gpus in ([1], [0], [], [7])
    ]
    gpus = merge(parts).devices("gpu")
    assert [gpu.attributes.get("ranks") for gpu in gpus] == [[1], [0]]


def test_processes_see_their_host_too():
    for hosts, ranks in collalgo.spawn(where, 2):
        assert hosts == ["host0"]
        assert sorted(r for group in ranks if group for r in group) == [0, 1]


class FakeNvml:
    """Two GPUs with two NVLinks between them, and one to a hidden switch."""

    class NVMLError(Exception):
        pass

    NVML_NVLINK_MAX_LINKS = 4
    BUSIDS = ("00000000:03:00.0", "00000000:81:00.0")
    REMOTE = ((1, 1, None), (0, 0, None))

    def nvmlInit(self):
        pass

    def nvmlShutdown(self):
        pass

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=self.BUSIDS[handle].encode())

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return 7, 0

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if link >= 3:
            raise self.NVMLError
        return True

    def nvmlDeviceGetNvLinkVersion(self, handle, link):
        return 2

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        other = self.REMOTE[handle][link]
        return SimpleNamespace(
            busId="0000:FF:00.0" if other is None else self.BUSIDS[other]
        )


def test_a_lost_gpu_is_a_warning(sysfs, monkeypatch):
    class Lost(FakeNvml):
        def nvmlDeviceGetHandleByIndex(self, index):
            if index:
                raise self.NVMLError("GPU is lost")
            return index

    monkeypatch.setitem(sys.modules, "pynvml", Lost())
    machine = detect(sysfs, "box")
    add_nvlinks(machine)
    assert machine.device("box/gpu0").attributes["sm"] == 70
    assert machine.warnings[-1] == "NVLinks of GPU 1 are unknown: GPU is lost"
    Lost.nvmlDeviceGetCount = lambda self: self.nvmlDeviceGetHandleByIndex(1)
    add_nvlinks(machine)
    assert machine.warnings[-1] == "NVLinks are unknown: GPU is lost"


def test_a_topology_with_assumed_speeds_has_warnings_of_its_own(sysfs):
    machine = detect(sysfs, "box")
    machine.link("box/gpu0", "box/gpu1", "pcie")
    known = with_assumed_speeds(machine)
    known.warn("of this one")
    assert "of this one" not in machine.warnings


def test_nvml_adds_the_nvlinks(sysfs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    machine = detect(sysfs, "box")
    add_nvlinks(machine)
    links = {link.ends: link for link in machine.links if link.kind == "nvlink"}
    assert links["box/gpu0", "box/gpu1"].count == 2
    assert links["box/gpu0", "box/gpu1"].bandwidth == 50.0
    assert links["box/gpu1", "box/nvswitch0"].count == 1
    assert machine.device("box/gpu0").attributes["sm"] == 70
