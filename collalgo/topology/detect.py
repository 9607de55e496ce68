"""Detect the local machine by sysfs, and its NVLinks by NVML if installed."""

import os
import re
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from collalgo.base.cpu_list import cores_of
from collalgo.errors import TopologyError
from collalgo.topology import constants
from collalgo.topology.cores import add_cores
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.plausible import review
from collalgo.topology.readers.hwloc import AMD_CONSOLES

SYSFS = Path("/sys")

#: The PCI vendors of GPUs.
GPU_VENDORS = ("0x10de", "0x1002", "0x8086")

ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def detect(
    sysfs: Path = SYSFS, host: str | None = None, *, cores: bool = True
) -> Topology:
    """Detect the machine that this process runs on.

    Without GPUs, the cores that this process may use are devices: places for ranks.

    Parameters
    ----------
    sysfs
        The mount point of sysfs.
    host
        The name of the machine; by default its host name.
    cores
        Whether to add the cores of a machine without GPUs.
    """
    host = host or socket.gethostname() or "host0"
    topology = Topology(host, f"detected from {sysfs}")
    Sysfs(topology, sysfs, host).read()
    if sysfs == SYSFS:
        from collalgo.topology.nvml import add_nvlinks

        add_nvlinks(topology)
    if cores and not topology.devices(Kind.GPU):
        for cpu in topology.devices(Kind.CPU):
            usable = cpu.attributes.get("allowed", "")
            add_cores(topology, cpu, sorted(cores_of(usable)))
    review(topology)
    return topology


def from_lstopo() -> Topology:
    """Detect the machine by ``lstopo`` of hwloc, which must be installed."""
    from collalgo.topology.readers import parse

    command = ["lstopo", "--of", "xml", "--whole-io", "-"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise TopologyError(f"cannot run lstopo of hwloc: {error}") from None
    return parse(done.stdout.decode(errors="replace"), "lstopo")


def text_of(path: Path, default: str = "") -> str:
    """The content of a small file, or a default if it cannot be read."""
    with suppress(OSError):
        return path.read_text().strip()
    return default


#: The links between a NIC and its virtual functions, in the folders of both.
FUNCTIONS = ("virtfn", "physfn")


class Sysfs:
    """The state of reading one sysfs."""

    def __init__(self, topology: Topology, root: Path, host: str):
        self.topology = topology
        self.root = root
        self.host = host
        self.cpus: dict[int, str] = {}
        self.roots: dict[str, str] = {}
        self.bridges: dict[str, str] = {}

    def read(self) -> None:
        self._numa_nodes()
        kept = self._devices()
        below: dict[str, set[str]] = {}
        for chain, _, _ in kept:
            for i, bridge in enumerate(chain[:-1]):
                below.setdefault(bridge, set()).add(chain[i + 1])
        for chain, kind, path in kept:
            self._device(chain, kind, path, below)
        self._virtual_nics()

    def _numa_nodes(self) -> None:
        folder = self.root / "devices/system/node"
        nodes = sorted(int(p.name[4:]) for p in folder.glob("node[0-9]*")) or [0]
        for node in nodes:
            cores = text_of(folder / f"node{node}/cpulist")
            self.cpus[node] = self.topology.add(
                f"{self.host}/cpu{node}",
                Kind.CPU,
                host=self.host,
                numa=node,
                cores=cores or None,
                socket=self._socket(cores),
                allowed=self._allowed(cores) if self.root == SYSFS else None,
            )
        self.topology.link_all(self.cpus.values(), LinkKind.SMP)

    def _socket(self, cores: str) -> int | None:
        first = re.match(r"\d+", cores)
        if first is None:
            return None
        where = f"devices/system/cpu/cpu{first[0]}/topology/physical_package_id"
        number = text_of(self.root / where)
        return int(number) if number.isdigit() else None

    @staticmethod
    def _allowed(cores: str) -> str | None:
        """The cores of a node that this process may use."""
        mine = sorted(os.sched_getaffinity(0) & cores_of(cores))
        return ",".join(map(str, mine)) or None

    def _devices(self) -> list[tuple[list[str], Kind, Path]]:
        """GPUs, NICs and NVSwitches, each with the addresses from its root port.

        The virtual functions of a NIC (SR-IOV) share its port, and are no others.
        """
        found = []
        for entry in sorted((self.root / "bus/pci/devices").glob("*")):
            path = entry.resolve()
            kind = _role(text_of(path / "class"), text_of(path / "vendor"), path)
            if kind is not None and not (path / "physfn").exists():
                chain = [part for part in path.parts if ADDRESS.match(part)]
                found.append((chain, kind, path))
        return found

    def _device(
        self,
        chain: list[str],
        kind: Kind,
        path: Path,
        below: dict[str, set[str]],
    ) -> None:
        parent = self._host_bridge(path)
        for i, bridge in enumerate(chain[:-1]):
            if len(below[bridge]) > 1:  # a switch, not a port with one device behind it
                folder = path.parents[len(chain) - 2 - i]
                parent = self._bridge(bridge, folder, parent)
        names = _interfaces(path)
        id = self.topology.add(
            f"{self.host}/{kind.value}{len(self.topology.devices(kind))}",
            kind,
            host=self.host,
            name=" ".join(names),
            busid=chain[-1],
            pci=f"{text_of(path / 'vendor')}:{text_of(path / 'device')}",
            speed=self._port_speed(names) if kind is Kind.NIC else None,
        )
        self._pcie(id, path, parent)

    def _host_bridge(self, path: Path) -> str:
        name = next((p for p in path.parts if p.startswith("pci")), "pci")
        if name not in self.roots:
            node = text_of(path / "numa_node", "-1")
            number = int(node) if re.fullmatch(r"-?\d+", node) else -1
            if number not in self.cpus:
                number = min(self.cpus)
                if len(self.cpus) > 1:
                    self.topology.warn(
                        f"{name}: its NUMA node is not known; {number} is assumed"
                    )
            root = self.topology.add(
                f"{self.host}/root{len(self.roots)}",
                Kind.ROOT,
                host=self.host,
                bus=name,
            )
            self.topology.link(root, self.cpus[number], LinkKind.PCIE)
            self.roots[name] = root
        return self.roots[name]

    def _bridge(self, address: str, path: Path, parent: str) -> str:
        if address not in self.bridges:
            number = len(self.topology.devices(Kind.PCI))
            self.bridges[address] = self.topology.add(
                f"{self.host}/pci{number}", Kind.PCI, host=self.host, busid=address
            )
            self._pcie(self.bridges[address], path, parent)
        return self.bridges[address]

    def _pcie(self, id: str, path: Path, parent: str) -> None:
        rate = constants.transfers(text_of(path / "current_link_speed"))
        width = text_of(path / "current_link_width")
        known = rate is not None and width.isdigit() and int(width) > 0
        speed = constants.pcie(rate, int(width)) if known and rate is not None else None
        self.topology.link(id, parent, LinkKind.PCIE, speed)

    def _port_speed(self, names: list[str]) -> float | None:
        """GB/s of a network interface; None if it is down or virtual."""
        for name in names:
            megabits = text_of(self.root / "class/net" / name / "speed")
            if megabits.isdigit() and int(megabits) > 0:
                return constants.network(int(megabits))
            rate = text_of(self.root / "class/infiniband" / name / "ports/1/rate")
            found = re.match(r"(\d+(?:\.\d+)?) Gb/sec", rate)
            if found:
                return float(found[1]) / 8
        return None

    def _virtual_nics(self) -> None:
        """Add network interfaces of devices outside PCIe, as of virtio over MMIO."""
        for entry in sorted((self.root / "class/net").glob("*")):
            path = entry.resolve()
            if not (path / "device").exists() or any(map(ADDRESS.match, path.parts)):
                continue
            id = self.topology.add(
                f"{self.host}/nic{len(self.topology.devices(Kind.NIC))}",
                Kind.NIC,
                host=self.host,
                name=entry.name,
                speed=self._port_speed([entry.name]),
            )
            self.topology.link(id, self.cpus[min(self.cpus)], LinkKind.PCIE)


def _interfaces(path: Path) -> list[str]:
    """The interfaces of a device, and then of its virtual functions."""
    functions = sorted(path.glob("virtfn*"), key=lambda each: (len(each.name), each))
    return [
        found.name
        for folder in (path, *functions)
        for glob in ("net/*", "*/net/*", "infiniband/*")  # virtio has one in between
        for found in sorted(folder.glob(glob))
        if (above := found.parent.parent) == folder
        or not above.name.startswith(FUNCTIONS)
    ]


def _role(pci_class: str, vendor: str, path: Path) -> Kind | None:
    if pci_class.startswith("0x02"):
        return Kind.NIC
    if pci_class.startswith("0x0680") and vendor == "0x10de":
        return Kind.NVSWITCH
    if pci_class.startswith(("0x03", "0x12")) and vendor in GPU_VENDORS:
        # Graphics on the board of a server are not for computing.
        on_board = vendor == "0x8086" and (path / "boot_vga").exists()
        device = text_of(path / "device").removeprefix("0x")
        on_board |= vendor == "0x1002" and device in AMD_CONSOLES
        return None if on_board else Kind.GPU
    return None
