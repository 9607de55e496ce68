"""What all ranks of a communicator see, as one graph with the ranks in their places."""

import os
import socket
from pathlib import Path
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import document as exchange
from collalgo.topology.detect import cores_of, detect, text_of
from collalgo.topology.model import Kind, LinkKind, Topology

#: GB/s of a NIC that does not tell: 10 Gbit/s.
NIC_SPEED = 1.25


def host_name() -> str:
    """What this host is called; ``COLLALGO_HOST`` may say something else."""
    return os.environ.get("COLLALGO_HOST") or socket.gethostname()


def identity() -> str:
    """What tells this host from others: the same for all processes on it.

    Its words are those of the machine, of the network and of the name. Processes that
    have no network in common are on different hosts.
    """
    boot = text_of(Path("/proc/sys/kernel/random/boot_id"))
    network = os.stat("/proc/self/ns/net").st_ino
    return f"{boot} {network} {host_name()}"


def visible_gpus() -> list[int]:
    """The GPUs that this process has been given by number; empty if it has all."""
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    text = next((os.environ[name] for name in names if name in os.environ), "")
    return [int(word) for word in text.split(",") if word.strip().isdigit()]


def seen() -> dict[str, Any]:
    """What this process sees of its machine, and where it runs on it."""
    return {
        "identity": identity(),
        "machine": exchange.document(detect(host="host")),
        "cores": sorted(os.sched_getaffinity(0)),
        "gpus": visible_gpus(),
    }


def merge(parts: list[dict[str, Any]]) -> Topology:
    """One graph of what each rank has seen, by its number: hosts once, ranks placed.

    The ranks of a NUMA node are its attribute ``ranks``; a rank that may use cores of
    several is put to the one of which it may use most. So are the ranks of a GPU, where
    they have been given GPUs by number. Hosts are joined by a network of which no more
    is known than the speed of their NICs.
    """
    topology = Topology(f"{len(parts)} ranks", "detected by all ranks")
    hosts: dict[str, str] = {}
    for rank, part in enumerate(parts):
        name = hosts.get(part["identity"])
        if name is None:
            name = hosts[part["identity"]] = f"host{len(hosts)}"
            topology.include(exchange.build(part["machine"]), {"host": name})
        _place(topology, name, rank, set(part["cores"]))
        gpus = topology.devices(Kind.GPU, host=name)
        for number in part.get("gpus", ()):
            if number < len(gpus):
                gpus[number].attributes.setdefault("ranks", []).append(rank)
    topology.name = f"{len(parts)} ranks on {len(hosts)} host{'s' * (len(hosts) > 1)}"
    if len(hosts) > 1:
        _join(topology)
    return topology


def _join(topology: Topology) -> None:
    """Put all NICs on one switch; a host that shows none has one."""
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


def stand(topology: Topology, bandwidth: float | None = None) -> list[str]:
    """Give each rank that was placed on a CPU a core of its own: their ids, by rank.

    Parameters
    ----------
    topology
        By :func:`merge`; the cores are added to it.
    bandwidth
        GB/s at which a rank reads and writes memory.
    """
    found: dict[int, str] = {}
    for cpu in topology.devices(Kind.CPU):
        for rank in cpu.attributes.get("ranks", ()):
            id = topology.add(f"{cpu.host}/rank{rank}", Kind.CORE, host=cpu.host)
            topology.link(id, cpu.id, LinkKind.SMP, bandwidth)
            found[rank] = id
    return [found[rank] for rank in sorted(found)]


def _place(topology: Topology, host: str, rank: int, cores: set[int]) -> None:
    cpus = topology.devices(Kind.CPU, host=host)
    if not cpus:
        raise TopologyError(f"rank {rank} has seen no CPU on its host")
    best = max(cpus, key=lambda c: len(cores_of(c.attributes.get("cores", "")) & cores))
    best.attributes.setdefault("ranks", []).append(rank)
