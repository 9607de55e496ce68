"""The machines of all ranks as one graph, with the ranks on their devices."""

import os
import socket
from functools import cache
from pathlib import Path
from typing import Any

from collalgo.base.cpu_list import cores_of
from collalgo.base.environment import HOST
from collalgo.base.units import counted
from collalgo.errors import TopologyError
from collalgo.topology.detect import detect, text_of
from collalgo.topology.document import build, document
from collalgo.topology.model import Kind, LinkKind, Topology

#: GB/s of a NIC of unknown speed: 10 Gbit/s.
NIC_SPEED = 1.25


def host_name() -> str:
    """The name of this host; ``COLLALGO_HOST`` overrides it."""
    return HOST.given() or socket.gethostname()


def identity() -> str:
    """The identity of this host, the same for all of its processes.

    It consists of the boot id, the network namespace and the host name. Processes in
    different network namespaces count as on different hosts.
    """
    boot = text_of(Path("/proc/sys/kernel/random/boot_id"))
    network = os.stat("/proc/self/ns/net").st_ino
    return f"{boot} {network} {host_name()}"


def visible_gpus() -> list[int]:
    """The numbers of the GPUs assigned to this process; empty for all GPUs."""
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    text = next((os.environ[name] for name in names if name in os.environ), "")
    return [int(word) for word in text.split(",") if word.strip().isdigit()]


@cache
def own_machine() -> dict[str, Any]:
    """The machine as this process has seen it first, or since :func:`detect_again`."""
    return document(detect(host="host", cores=False))


def detect_again() -> None:
    """Let the next view have the machine as it is then: links fail and become slow."""
    own_machine.cache_clear()


def local_view() -> dict[str, Any]:
    """The machine as seen by this process, and the cores and GPUs it may use."""
    return {
        "identity": identity(),
        "machine": own_machine(),
        "cores": sorted(os.sched_getaffinity(0)),
        "gpus": visible_gpus(),
    }


def merge(parts: list[dict[str, Any]]) -> Topology:
    """Merge the views of all ranks, in order, into one graph with each host once.

    The attribute ``ranks`` of a NUMA node lists its ranks; a rank that may use cores of
    several nodes is on the one with most of these cores. A GPU lists the ranks that it
    is assigned to by number. One switch joins all hosts, at the speed of their NICs.
    """
    topology = Topology(f"{len(parts)} ranks", "detected by all ranks")
    hosts: dict[str, str] = {}
    for rank, part in enumerate(parts):
        name = hosts.get(part["identity"])
        if name is None:
            name = hosts[part["identity"]] = f"host{len(hosts)}"
            topology.include(build(part["machine"]), {"host": name})
        _place(topology, name, rank, set(part["cores"]))
        gpus = topology.devices(Kind.GPU, host=name)
        for number in part.get("gpus", ()):
            if number < len(gpus):
                gpus[number].attributes.setdefault("ranks", []).append(rank)
    topology.name = f"{counted(len(parts), 'rank')} on {counted(len(hosts), 'host')}"
    if len(hosts) > 1:
        _join(topology)
    return topology


def _join(topology: Topology) -> None:
    """Join all NICs by one switch; a host without NICs gets one."""
    switch = topology.add("network", Kind.SWITCH)
    for host in topology.hosts:
        if not topology.devices(Kind.NIC, host=host):
            nic = topology.add(f"{host}/nic0", Kind.NIC, host=host)
            cpu = topology.devices(Kind.CPU, host=host)[0]
            topology.link(nic, cpu.id, LinkKind.PCIE)
    for device in topology.devices(Kind.NIC):
        speed = device.attributes.get("speed")
        assumed = () if speed else (f"bandwidth: {NIC_SPEED} GB/s, as usual",)
        topology.link(
            device.id, switch, LinkKind.NETWORK, speed or NIC_SPEED, assumed=assumed
        )


def add_rank_cores(topology: Topology, bandwidth: float | None = None) -> list[str]:
    """Add a core for each rank of a CPU, in the order of the ranks; return their ids.

    Parameters
    ----------
    topology
        A result of :func:`merge`, to which the cores are added.
    bandwidth
        The memory bandwidth of a rank in GB/s.
    """
    cpus = {
        rank: cpu
        for cpu in topology.devices(Kind.CPU)
        for rank in cpu.attributes.get("ranks", ())
    }
    found = []
    for rank, cpu in sorted(cpus.items()):
        id = topology.add(f"{cpu.host}/rank{rank}", Kind.CORE, host=cpu.host)
        topology.link(id, cpu.id, LinkKind.SMP, bandwidth)
        found.append(id)
    return found


def _place(topology: Topology, host: str, rank: int, cores: set[int]) -> None:
    cpus = topology.devices(Kind.CPU, host=host)
    if not cpus:
        raise TopologyError(f"rank {rank} found no CPU on its host")
    best = max(cpus, key=lambda c: len(cores_of(c.attributes.get("cores", "")) & cores))
    best.attributes.setdefault("ranks", []).append(rank)
