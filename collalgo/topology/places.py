"""The devices that ranks are on: GPUs, else cores, CPUs, hosts or NICs."""

from collections.abc import Sequence

from collalgo.base.cpu_list import cores_of
from collalgo.errors import TopologyError
from collalgo.topology.cores import add_cores
from collalgo.topology.model import Device, Kind, Topology

#: The kinds of devices that ranks are on: the first kind found. NICs represent hosts
#: of which nothing else is known.
RANK_KINDS = (Kind.GPU, Kind.CORE, Kind.CPU, Kind.HOST, Kind.NIC)

#: What the ranks of a machine without GPUs may be on: each core, or each CPU.
PLACES = ("cores", "sockets")


def ranks_of(topology: Topology, host: str | None = None) -> list[str]:
    """The devices that are ranks, of all hosts or of one."""
    for kind in RANK_KINDS:
        if topology.devices(kind):
            found = topology.devices(kind)
            return [d.id for d in found if host in (None, d.host or d.id)]
    return []


def host_after_host(topology: Topology) -> list[str]:
    """The ranks host after host; by number they may alternate between hosts."""
    number = {host: i for i, host in enumerate(topology.hosts)}
    return sorted(
        ranks_of(topology),
        key=lambda rank: number.get(topology.device(rank).host, len(number)),
    )


def place(topology: Topology, places: str) -> None:
    """Put the ranks of a machine without GPUs on its cores, or one on each socket.

    Raises
    ------
    TopologyError
        If the machine has GPUs, or no CPUs, or its cores are not known.
    """
    if places not in PLACES:
        raise TopologyError(
            f"ranks={places}: ranks are on one of {', '.join(PLACES)}, or on GPUs"
        )
    cpus, gpus = topology.devices(Kind.CPU), topology.devices(Kind.GPU)
    if gpus or not cpus:
        raise TopologyError(
            f"{topology.name}: ranks={places} is for hosts with CPUs and without "
            f"GPUs, but it has {len(cpus)} CPUs and {len(gpus)} GPUs"
        )
    cores = [core.id for core in topology.devices(Kind.CORE)]
    if places == "sockets":
        topology.remove(cores)
    elif not cores:
        _add_cores(topology, cpus)


def _add_cores(topology: Topology, cpus: Sequence[Device]) -> None:
    for cpu in cpus:
        numbers = sorted(cores_of(str(cpu.attributes.get("cores", ""))))
        if not numbers:
            raise TopologyError(
                f"{topology.name}: the cores of {cpu.id} are not known; ranks=sockets "
                "puts one rank on each CPU"
            )
        add_cores(topology, cpu, numbers)
