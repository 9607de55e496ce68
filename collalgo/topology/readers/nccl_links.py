"""The links between GPUs in NCCL's XML, where each end describes its links."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import constants
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.pci_class import NVSWITCH_CLASS, POWER_CLASS
from collalgo.topology.values import integer, number

#: The bus id of a device that is hidden from the process: an NVSwitch.
HIDDEN = re.compile(r"f{4,}:")


class FastLinks:
    """The state of adding links: the devices by host and bus id."""

    def __init__(
        self, topology: Topology, by_busid: Mapping[tuple[str, str], str], hosts: int
    ):
        self.topology = topology
        self.by_busid = {(host, id.lower()): d for (host, id), d in by_busid.items()}
        self.hosts = hosts
        self.back: Counter[tuple[str, str, str]] = Counter()  # cables, by the other end
        self.there: set[tuple[str, str, str]] = set()  # links of the other end's GPU

    def add(self, elements: Iterable[tuple[str, str, Any]]) -> None:
        """Add the links of elements, each with its host and its GPU."""
        for host, gpu, element in elements:
            self._fast_link(host, gpu, element)
        for a, b, tag in sorted(self.there | self.back.keys()):
            known = self.topology.between(a, b)[LinkKind(tag)].count
            count = self.back[a, b, tag]
            if known != count:
                self.topology.warn(
                    f"{a} - {b}: {known} cables of {tag} in one direction, {count} "
                    f"back; {known} are used"
                )

    def _fast_link(self, host: str, gpu: str, element: Any) -> None:
        if element.tag == "c2c":
            self._c2c(gpu, element)
            return
        if element.tag not in ("nvlink", "xgmi", "pcilink"):
            raise TopologyError(f"{gpu} contains an unknown <{element.tag}>")
        target = self._target(host, gpu, element)
        if target is None:
            self.topology.warn(
                f"{gpu}: the other end of its {element.tag}, {element.get('target')}, "
                "is not in the file"
            )
        elif self._is_first(gpu, target, element):
            self._add_link(gpu, target, element)
        elif element.tag != "pcilink":
            count = integer(element.get("count", "1"), f"{gpu} {element.tag} count")
            self.back[target, gpu, element.tag] += count

    def _target(self, host: str, gpu: str, element: Any) -> str | None:
        """The device at the other end; all hidden NVSwitches are merged.

        NCCL describes several hosts in a file only where one NVLink domain joins them.
        """
        busid, type = element.get("target", "").lower(), element.get("tclass", "")
        found = self.by_busid.get((host, busid))
        if found is not None:
            return found
        if type.startswith(NVSWITCH_CLASS) or HIDDEN.match(busid):
            several = self.hosts > 1
            switch = "nvswitch0" if several else f"{host}/nvswitch0"
            if switch not in self.topology:
                self.topology.add(switch, Kind.NVSWITCH, host="" if several else host)
            if several:
                self.topology.warn(
                    f"the {self.hosts} hosts are assumed to form one NVLink domain, as "
                    "the file lists no NVSwitches"
                )
            return switch
        return self._cpu_above(gpu) if type.startswith(POWER_CLASS) else None

    def _is_first(self, gpu: str, target: str, element: Any) -> bool:
        """Whether the element at the other end has not added the link yet."""
        kind = LinkKind.PCIE if element.tag == "pcilink" else LinkKind(element.tag)
        ends = Kind.PCI if element.tag == "pcilink" else Kind.GPU
        if self.topology.device(target).kind is not ends or target == gpu:
            return True
        known = self.topology.between(gpu, target).get(kind)
        return not known or known.ends[0] == gpu

    def _add_link(self, gpu: str, target: str, element: Any) -> None:
        if element.tag == "pcilink":
            self.topology.link(gpu, target, LinkKind.PCIE)
            return
        kind = LinkKind(element.tag)
        count = integer(element.get("count", "1"), f"{gpu} {kind.value} count")
        if not count:
            self.topology.warn(
                f"{gpu} - {target}: {kind.value} with 0 cables is ignored"
            )
            return
        each, rule = constants.of_cable(kind, self.topology.device(gpu).attributes)
        self.topology.link(
            gpu, target, kind, count * each, count=count, assumed=(rule,)
        )
        if self.topology.device(target).kind is Kind.GPU and target != gpu:
            self.there.add((gpu, target, element.tag))

    def _c2c(self, gpu: str, element: Any) -> None:
        each = number(element.get("bw", "0"), f"{gpu} c2c bw") / 1000
        count = integer(element.get("count", "1"), f"{gpu} c2c count", least=1)
        cpu = self._cpu_above(gpu)
        if cpu is not None:
            self.topology.link(gpu, cpu, LinkKind.C2C, each * count, count=count)

    def _cpu_above(self, id: str) -> str | None:
        seen, queue = {id}, [id]
        for current in queue:
            for link in self.topology.links_of(current):
                other = link.other(current)
                if link.kind is LinkKind.PCIE and other not in seen:
                    if self.topology.device(other).kind is Kind.CPU:
                        return other
                    seen.add(other)
                    queue.append(other)
        return None
