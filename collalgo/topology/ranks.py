"""What all ranks of a communicator see, as one graph with the ranks in their places."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import exchange
from collalgo.topology.detect import cores_of, detect, text_of
from collalgo.topology.model import Kind, Topology


def identity() -> str:
    """What tells this host from others: the same for all processes on it."""
    boot = text_of(Path("/proc/sys/kernel/random/boot_id"))
    return f"{socket.gethostname()} {boot}"


def visible_gpus() -> list[int]:
    """The GPUs that this process has been given by number; empty if it has all."""
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    text = next((os.environ[name] for name in names if name in os.environ), "")
    return [int(word) for word in text.split(",") if word.strip().isdigit()]


def of(comm: Any = None) -> Topology:
    """The machines of all ranks as one graph; see ``Topology.of``."""
    import numpy as np

    from collalgo.world import resolve

    comm = resolve(comm)
    seen = {
        "identity": identity(),
        "machine": exchange.document(detect(host="host")),
        "cores": sorted(os.sched_getaffinity(0)),
        "gpus": visible_gpus(),
    }
    mine = np.frombuffer(json.dumps(seen).encode(), np.uint8)
    lengths = comm.allgather(np.array([len(mine)]))[:, 0].tolist()
    joined = comm.allgatherv(mine, lengths).tobytes()
    parts, start = [], 0
    for length in lengths:
        parts.append(json.loads(joined[start : start + length]))
        start += length
    return merge(parts)


def merge(parts: list[dict[str, Any]]) -> Topology:
    """One graph of what each rank has seen, by its number: hosts once, ranks placed.

    The ranks of a NUMA node are its attribute ``ranks``; a rank that may use cores of
    several is put to the one of which it may use most. So are the ranks of a GPU, where
    they have been given GPUs by number.
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
    return topology


def _place(topology: Topology, host: str, rank: int, cores: set[int]) -> None:
    cpus = topology.devices(Kind.CPU, host=host)
    if not cpus:
        raise TopologyError(f"rank {rank} has seen no CPU on its host")
    best = max(cpus, key=lambda c: len(cores_of(c.attributes.get("cores", "")) & cores))
    best.attributes.setdefault("ranks", []).append(rank)
