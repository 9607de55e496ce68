"""The system XML of NCCL and RCCL (NCCL_TOPO_FILE).

It is a tree of NUMA nodes, PCI devices, GPUs and NICs; an NVLink gives the bus id of
its other end. Source: src/graph/xml.cc and topo.cc of NCCL 2.30, and RCCL.
"""

from itertools import combinations
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import constants
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.bare_gpus import warn_of_bare_gpus
from collalgo.topology.readers.broadcom import flatten
from collalgo.topology.readers.nccl_links import FastLinks
from collalgo.topology.readers.nccl_words import check_words
from collalgo.topology.readers.pci_class import role
from collalgo.topology.readers.text import root_tag, xml
from collalgo.topology.values import integer, number

#: Why a file may lack links between GPUs.
NO_LINKS = (
    "NCCL detects NVLinks itself, so a file for NCCL_TOPO_FILE may lack them; "
    "NCCL_TOPO_DUMP_FILE writes one with them"
)


def recognises(text: str) -> bool:
    """Whether the outermost element is ``system``."""
    return root_tag(text) == "system"


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the XML."""
    root = xml(text)
    check_words(root, topology)
    flatten(root, topology)
    System(topology).read(root)
    warn_of_bare_gpus(topology, NO_LINKS)


class System:
    """The state of reading a file: the hosts, and the devices by bus id."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.hosts: dict[str, str] = {}
        self.by_busid: dict[tuple[str, str], str] = {}
        self.numbers: dict[tuple[str, str], int] = {}
        self.cpus: dict[str, list[str]] = {}
        self.named: dict[tuple[str, str, int], tuple[str, Any]] = {}
        self.fast: list[tuple[str, str, Any]] = []  # host, id of a GPU, element

    def read(self, root: Any) -> None:
        for child in root:
            if child.tag != "cpu":
                raise TopologyError(
                    f"<system> contains <{child.tag}>; only <cpu> is known"
                )
            self._cpu(child)
        FastLinks(self.topology, self.by_busid, len(self.hosts)).add(self.fast)
        self._between_cpus()

    def _next(self, host: str, kind: str) -> str:
        number = self.numbers.get((host, kind), 0)
        self.numbers[host, kind] = number + 1
        return f"{host}/{kind}{number}"

    def _cpu(self, element: Any) -> None:
        key = element.get("host_hash", "")
        host = self.hosts.setdefault(key, f"host{len(self.hosts)}")
        numa = integer(element.get("numaid", "-1"), "cpu numaid", least=-1)
        cpu = self.topology.add(
            f"{host}/cpu{numa}" if numa >= 0 else self._next(host, "cpu"),
            Kind.CPU,
            host=host,
            numa=numa if numa >= 0 else None,
            arch=element.get("arch"),
            vendor=element.get("vendor"),
            family=integer(element.get("familyid", "0"), f"cpu {numa} familyid", -1),
            model=integer(element.get("modelid", "0"), f"cpu {numa} modelid", -1),
            affinity=element.get("affinity"),
        )
        self.cpus.setdefault(host, []).append(cpu)
        self._children(element, cpu, host)

    def _children(self, element: Any, parent: str, host: str) -> None:
        """Add the elements below a device; functions of a PCIe card share its slot."""
        cards: dict[str, list[Any]] = {}
        for child in element:
            busid = child.get("busid", "") if child.tag == "pci" else ""
            cards.setdefault(busid.rpartition(".")[0] or str(id(child)), []).append(
                child
            )
        for functions in cards.values():
            above = parent
            if len(functions) > 1:
                above = self._device(
                    functions[0], Kind.CARD, parent, host, unique=False
                )
            for child in functions:
                self._below(child, above, host)

    def _below(self, element: Any, parent: str, host: str) -> None:
        if element.tag == "pci":
            self._pci(element, parent, host)
        elif element.tag == "nic":  # attached to the CPU by an unknown bus
            for net in element.iter("net"):
                self._nic(net, parent, host, None)
        elif element.tag == "pcilink":
            self.fast.append((host, parent, element))
        else:
            raise TopologyError(f"{parent} contains an unknown <{element.tag}>")

    def _pci(self, element: Any, parent: str, host: str) -> None:
        children = {child.tag for child in element}
        if "gpu" in children:
            self._gpus(element, parent, host)
        elif "nic" in children:
            nets = list(element.iter("net"))
            parent = self._slot(element, len(nets), parent, host)
            for net in nets:
                self._nic(net, parent, host, element)
        elif children:
            bridge = self._device(element, Kind.PCI, parent, host)
            self._children(element, bridge, host)
        else:
            self._leaf(element, parent, host)

    def _leaf(self, element: Any, parent: str, host: str) -> None:
        """Add a device of which the file gives at most the class."""
        kind = role(element.get("class"))
        id = self._device(element, kind or Kind.PCI, parent, host)
        if kind is None:
            self.topology.warn(
                f"{id} ({element.get('busid')}) has no class; it may be a GPU, a NIC "
                "or a bridge"
            )

    def _slot(self, element: Any, devices: int, parent: str, host: str) -> str:
        """The parent of the devices of a PCIe device: one slot for several."""
        if devices < 2:
            return parent
        return self._device(element, Kind.CARD, parent, host, unique=False)

    def _device(
        self, element: Any, kind: Kind, parent: str, host: str, *, unique: bool = True
    ) -> str:
        busid = element.get("busid", "")
        id = self.topology.add(
            self._next(host, kind.value), kind, host=host, busid=busid or None
        )
        if unique and self.by_busid.setdefault((host, busid), id) != id:
            self.topology.warn(f"{id}: bus id {busid} occurs twice")
        self._pcie(element, id, parent)
        return id

    def _pcie(self, element: Any, id: str, parent: str) -> None:
        assumed = []
        speed, width = element.get("link_speed", ""), element.get("link_width", "0")
        rate = constants.transfers(speed)
        if rate is None:
            rate = 8.0
            assumed.append(f"8 GT/s, as link_speed is {speed!r}")
        lanes = integer(width or "0", f"{id} link_width", most=64)
        if not lanes:
            lanes = 16
            assumed.append("16 lanes, as link_width is 0")
        bandwidth = constants.pcie(rate, lanes)
        self.topology.link(id, parent, LinkKind.PCIE, bandwidth, assumed=tuple(assumed))

    def _gpus(self, element: Any, parent: str, host: str) -> None:
        """Add the GPUs of a PCIe device: one, or the parts that ranks have of it."""
        parent = self._slot(element, len(element), parent, host)
        for i, gpu in enumerate(element):
            if gpu.tag != "gpu":
                raise TopologyError(
                    f"the GPU at {element.get('busid')} contains <{gpu.tag}> besides "
                    "its <gpu>"
                )
            self._gpu(
                gpu, self._device(element, Kind.GPU, parent, host, unique=not i), host
            )

    def _gpu(self, element: Any, id: str, host: str) -> None:
        attributes = self.topology.device(id).attributes
        for key in ("dev", "sm", "rank", "gdr", "mlopart"):
            if element.get(key) is not None:
                what = f"{id} {key}"
                attributes[key] = integer(element.get(key), what, least=-1)
        if element.get("gcn"):
            attributes["gcn"] = element.get("gcn")
        for key in ("dev", "rank"):
            self._check_number(id, key, attributes.get(key, -1), host)
        if "rank" not in attributes and "dev" not in attributes:
            self.topology.warn(f"{id} has neither rank nor dev; NCCL ignores it")
        self.fast += [(host, id, link) for link in element]

    def _check_number(self, id: str, key: str, value: int, host: str) -> None:
        """Warn of a second GPU with a rank, or of a host with a device number.

        Ranks that share a GPU have one device number.
        """
        busid = self.topology.device(id).attributes.get("busid")
        scope = "" if key == "rank" else host
        first, place = self.named.setdefault((key, scope, value), (id, busid))
        if value >= 0 and id != first and (key == "rank" or place != busid):
            self.topology.warn(f"{first} and {id} have one {key}, {value}")

    def _nic(self, net: Any, parent: str, host: str, card: Any) -> None:
        name = net.get("name", "")
        id = self._next(host, "nic")
        megabits = number(net.get("speed", "0"), f"{id} speed", least=-1e12)
        busid = None if card is None else card.get("busid")
        if megabits <= 0:
            self.topology.warn(f"{id}: the speed {megabits:g} Mb/s means unknown")
        self.topology.add(
            id,
            Kind.NIC,
            host=host,
            name=name,
            busid=busid,
            speed=constants.network(megabits) if megabits > 0 else None,
            **{key: net.get(key) for key in ("port", "guid", "gdr", "rail")},
        )
        if card is None:
            self.topology.link(id, parent, LinkKind.PCIE)
        else:
            self.by_busid.setdefault((host, str(busid)), id)
            self._pcie(card, id, parent)

    def _between_cpus(self) -> None:
        for cpus in self.cpus.values():
            self.topology.check_pairs(cpus, LinkKind.SMP)
            for a, b in combinations(cpus, 2):
                x = self.topology.device(a).attributes
                speed = constants.smp(
                    str(x.get("arch")), str(x.get("vendor")), x["family"], x["model"]
                )
                rule = () if speed is None else (f"{speed:g} GB/s, NCCL's value",)
                self.topology.link(a, b, LinkKind.SMP, speed, assumed=rule)
