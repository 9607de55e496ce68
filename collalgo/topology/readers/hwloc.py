"""The XML of hwloc (``lstopo --of xml``), of versions 1, 2 and 3.

NUMA nodes become CPUs; of the PCIe devices, GPUs, NICs and NVSwitches are kept with the
bridges above them. A bridge with a single device below it is a port, not a switch.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.bare_gpus import warn_of_bare_gpus
from collalgo.topology.readers.hwloc_distances import links_between
from collalgo.topology.readers.text import root_tag, xml
from collalgo.topology.values import integer, number

#: The PCI vendors of the graphics of management controllers, and such devices of AMD.
CONSOLES = ("102b", "1a03", "19a2")
AMD_CONSOLES = ("4752", "515e", "5969")

NVIDIA, AMD = "10de", "1002"

#: The beginnings of the names of OS devices that compute.
COMPUTING = ("cuda", "nvml", "opencl", "rsmi", "ze")

#: Those of a graphics card under Linux; before ROCm AMD's GPUs have no others.
GRAPHICS = ("card", "render")

#: Why a file may lack links between GPUs.
NO_LINKS = "hwloc shows such links only if it was built with NVML or ROCm SMI"


def recognises(text: str) -> bool:
    """A root element ``topology`` with objects."""
    return root_tag(text) == "topology" and "<object" in text


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the XML."""
    root = xml(text)
    reader = Reader(topology)
    for element in root.findall("object"):
        reader.container(element, None)
    reader.between_cpus()
    _warn_of_displays(root, topology)
    links_between(root, reader.by_number, topology)
    warn_of_bare_gpus(topology, NO_LINKS)


class Reader:
    """The state of reading a file: devices by hwloc's numbers."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.by_number: dict[str, str] = {}
        self.numbers: Counter[Kind] = Counter()

    def _next(self, kind: Kind) -> str:
        self.numbers[kind] += 1
        return f"host0/{kind.value}{self.numbers[kind] - 1}"

    def container(self, element: Any, socket: str | None) -> list[str]:
        """Add an object with its bridges, and return its NUMA nodes."""
        if element.get("type") in ("Package", "Socket"):
            socket = element.get("os_index", socket)
        nodes = []
        if element.get("type") == "NUMANode":
            nodes.append(self._numa(element, socket))
        bridges = []
        for child in element.findall("object"):
            if child.get("type") in ("Bridge", "PCIDev"):
                bridges.append(child)
            else:
                nodes += self.container(child, socket)
        if not nodes and element.get("type") == "Machine":
            nodes.append(self._numa(element, "0"))
        self._attach(bridges, nodes, element)
        return nodes

    def _attach(self, bridges: list[Any], nodes: list[str], element: Any) -> None:
        if nodes:
            self.topology.check_pairs(nodes, LinkKind.SMP)
            for bridge in bridges:
                self._host_bridge(bridge, nodes)
        elif bridges:
            self.topology.warn(
                f"{len(bridges)} host bridges below a {element.get('type')} without "
                "NUMA nodes are omitted"
            )

    def _numa(self, element: Any, socket: str | None) -> str:
        index = element.get("os_index", "0")
        id = self.topology.add(
            f"host0/cpu{index}",
            Kind.CPU,
            host="host0",
            numa=integer(index, "os_index of a NUMANode"),
            socket=None if socket is None else integer(socket, "os_index of a Package"),
            affinity=element.get("cpuset"),
        )
        self.by_number[f"NUMANode:{index}"] = id
        return id

    def between_cpus(self) -> None:
        """Link all NUMA nodes; hwloc gives their distances but no bandwidths."""
        nodes = [
            cpu.id
            for cpu in self.topology.devices(Kind.CPU)
            if cpu.attributes.get("affinity") not in ("0x0", None)
        ]
        self.topology.link_all(nodes, LinkKind.SMP)

    def _host_bridge(self, element: Any, nodes: list[str]) -> None:
        if not holds_devices(element):
            return
        root = self.topology.add(self._next(Kind.ROOT), Kind.ROOT, host="host0")
        for node in nodes:
            self.topology.link(root, node, LinkKind.PCIE)
        self._below(element, root)

    def _below(self, element: Any, parent: str) -> None:
        role = role_of(element)
        if role is not None:
            self._device(element, role, parent)
            return
        children = element.findall("object")
        kept = [
            child
            for child in children
            if holds_devices(child) and not is_virtual(child, children)
        ]
        is_host_bridge = element.get("bridge_type", "").startswith("0-")
        if len(kept) > 1 and not is_host_bridge:
            switch = self.topology.add(self._next(Kind.PCI), Kind.PCI, host="host0")
            self._pcie(element, switch, parent)
            parent = switch
        for child in kept:
            self._below(child, parent)

    def _device(self, element: Any, kind: Kind, parent: str) -> None:
        names = [child.get("name", "") for child in element.iter("object")][1:]
        speed = _speed(element)
        id = self.topology.add(
            self._next(kind),
            kind,
            host="host0",
            name=" ".join(name for name in names if name),
            busid=element.get("pci_busid"),
            pci=element.get("pci_type"),
            speed=speed if kind is Kind.NIC else None,
        )
        for child in element.iter("object"):
            for key in (child.get("gp_index"), child.get("os_index")):
                self.by_number.setdefault(f"{child.get('type')}:{key}", id)
        self._pcie(element, id, parent)

    def _pcie(self, element: Any, id: str, parent: str) -> None:
        what = f"{id} pci_link_speed"
        speed = number(element.get("pci_link_speed", "0"), what)  # already in GB/s
        self.topology.link(id, parent, LinkKind.PCIE, speed or None)


def holds_devices(element: Any) -> bool:
    """Whether an object is or contains a GPU, a NIC or an NVSwitch."""
    return any(role_of(child) is not None for child in element.iter("object"))


def is_virtual(element: Any, siblings: Sequence[Any]) -> bool:
    """Whether a NIC is a virtual function (SR-IOV) of another one on its bus.

    hwloc does not report it: the identifier of the device differs, and either it has no
    interface of its own or its name says it.
    """
    if role_of(element) is not Kind.NIC:
        return False
    named = any(
        "virtual function" in info.get("value", "").lower()
        for info in element.findall("info")
    )
    if not named and element.find("object") is not None:
        return False
    return any(
        each.find("object") is not None
        and _identifier(each) != _identifier(element)
        and _bus(each) == _bus(element)
        for each in siblings
        if role_of(each) is Kind.NIC
    )


def _identifier(element: Any) -> str:
    """Vendor and device."""
    return " ".join(element.get("pci_type", "").split()[1:2])


def _bus(element: Any) -> str:
    return str(element.get("pci_busid", "")).rpartition(":")[0]


def role_of(element: Any) -> Kind | None:
    """The kind of a PCI device; None if it is not kept."""
    if element.get("type") != "PCIDev":
        return None
    words = element.get("pci_type", "").split()
    pci_class = words[0] if words else ""
    vendor = words[1].strip("[]").split(":")[0] if len(words) > 1 else ""
    if pci_class.startswith("02"):
        return Kind.NIC
    if element.get("subtype") == "NVSwitch" or (pci_class, vendor) == ("0680", NVIDIA):
        return Kind.NVSWITCH
    if pci_class.startswith("12") and vendor in (NVIDIA, "1002", "8086"):
        return Kind.GPU
    if pci_class.startswith("03") and vendor not in CONSOLES:
        computes = vendor == NVIDIA or pci_class in ("0302", "0380")
        return Kind.GPU if computes or _has(element, _drivers(words)) else None
    return None


def _warn_of_displays(root: Any, topology: Topology) -> None:
    """Name the display controllers that are taken for no GPUs."""
    left_out = [
        element.get("pci_busid", "?")
        for element in root.iter("object")
        if element.get("pci_type", "").startswith("03")
        and role_of(element) is None
        and not re.match(rf"\S+ \[({'|'.join(CONSOLES)}):", element.get("pci_type"))
    ]
    if left_out:
        topology.warn(
            f"display controllers without a compute driver are not GPUs here: "
            f"{', '.join(left_out[:4])}{', ...' if left_out[4:] else ''}"
        )


def _drivers(words: list[str]) -> tuple[str, ...]:
    """The OS devices by which a display controller is a GPU, by its ``pci_type``."""
    vendor, _, device = (words[1] if len(words) > 1 else "").strip("[]").partition(":")
    if vendor == AMD and device not in AMD_CONSOLES:
        return COMPUTING + GRAPHICS
    return COMPUTING


def _has(element: Any, names: tuple[str, ...]) -> bool:
    return any(o.get("name", "").startswith(names) for o in element.iter("object"))


def _speed(element: Any) -> float | None:
    """The speed of the port of a NIC by hwloc's ``LinkSpeed``, if given."""
    for info in element.iter("info"):
        if info.get("name") == "LinkSpeed" and info.get("value", "").isdigit():
            return number(info.get("value"), "LinkSpeed") / 8000 or None
    return None
