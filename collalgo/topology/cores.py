"""The cores of CPUs."""

import re
from collections.abc import Iterable

from collalgo.topology.model import Device, Kind, LinkKind, Topology


def cores_of(text: str) -> set[int]:
    """The numbers in a list of the kernel's form "0-3,8"."""
    cores: set[int] = set()
    for first, last in re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", text):
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def add_cores(topology: Topology, cpu: Device, numbers: Iterable[int]) -> None:
    """Add the cores of a CPU, by their numbers on its host."""
    for number in numbers:
        id = topology.add(f"{cpu.host}/core{number}", Kind.CORE, host=cpu.host)
        topology.link(id, cpu.id, LinkKind.SMP)
