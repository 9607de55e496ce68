"""The cores of CPUs."""

from collections.abc import Iterable

from collalgo.topology.model import Device, Kind, LinkKind, Topology


def add_cores(topology: Topology, cpu: Device, numbers: Iterable[int]) -> None:
    """Add the cores of a CPU, by their numbers on its host."""
    for number in numbers:
        id = topology.add(f"{cpu.host}/core{number}", Kind.CORE, host=cpu.host)
        topology.link(id, cpu.id, LinkKind.SMP)
