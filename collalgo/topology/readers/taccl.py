"""Measured link tables of TACCL: latencies and microseconds per megabyte."""

from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.text import json_of
from collalgo.topology.readers.unknown_words import warn_of_keys
from collalgo.topology.values import integer, number

#: The keys of these tables.
KEYS = {"name", "gpus_per_node", "nics_per_node", "alpha", "node_betas_list",
        "node_invbws_list", "remote_invbw", "remote_alpha", "remote_beta"}  # fmt: skip


def recognises(text: str) -> bool:
    """The keys of these tables, or of their sketches."""
    value = json_of(text)
    return isinstance(value, dict) and (
        "gpus_per_node" in value or "intranode_sketch" in value
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology: one node with its NICs."""
    entry: dict[str, Any] = json_of(text)
    if "gpus_per_node" not in entry:
        raise TopologyError(
            "this is a sketch, which restricts algorithms; read the topology file of "
            "the machine instead"
        )
    warn_of_keys(topology, "the table", entry, KEYS)
    topology.name = str(entry.get("name", topology.name))
    n = integer(entry["gpus_per_node"], "gpus_per_node", 1, 1024)
    gpus = [topology.add(f"host0/gpu{i}", Kind.GPU, host="host0") for i in range(n)]
    latency = number(entry.get("alpha", 0), "alpha") * 1e-6
    costs = entry.get("node_invbws_list") or entry.get("node_betas_list") or []
    speeds = [_speed(cost, "node_invbws_list") for cost in costs]
    _links(topology, gpus, speeds, latency)
    _nics(topology, entry, gpus)


def _links(
    topology: Topology, gpus: list[str], speeds: list[float], latency: float
) -> None:
    if len(speeds) == 1:
        _switched(topology, gpus, speeds[0], latency)
    elif len(speeds) == 2 and len(gpus) == 8:
        _cube_mesh(topology, gpus, speeds, latency)
    else:
        raise TopologyError(
            f"{len(speeds)} link costs for {len(gpus)} GPUs; one, or two for 8 GPUs, "
            "can be read"
        )


def _speed(microseconds: Any, what: str) -> float:
    """The GB/s of a link, from its microseconds per megabyte."""
    return 1000 / number(microseconds, what, 1e-6)


def _switched(
    topology: Topology, gpus: list[str], speed: float, latency: float
) -> None:
    switch = topology.add("host0/nvswitch0", Kind.NVSWITCH, host="host0")
    rule = ("a single cost for all pairs means a switch",)
    for gpu in gpus:
        topology.link(
            gpu, switch, LinkKind.NVLINK, speed, latency=latency / 2, assumed=rule
        )


def _cube_mesh(
    topology: Topology, gpus: list[str], speeds: list[float], latency: float
) -> None:
    """Two costs for eight GPUs: the double and the single links of a DGX-1V."""
    from collalgo.topology.presets import load

    rule = ("the pairs with two links are those of a DGX-1V",)
    for link in load("dgx1v").links:
        if link.kind is LinkKind.NVLINK:
            a, b = (gpus[int(end.removeprefix("host0/gpu"))] for end in link.ends)
            topology.link(
                a,
                b,
                LinkKind.NVLINK,
                speeds[0] if link.count == 2 else speeds[1],
                count=link.count,
                latency=latency,
                assumed=rule,
            )


def _nics(topology: Topology, entry: dict[str, Any], gpus: list[str]) -> None:
    count = integer(entry.get("nics_per_node", 0), "nics_per_node", 0, 1024)
    cost = entry.get("remote_invbw", entry.get("remote_beta"))
    for i in range(count):
        id = topology.add(
            f"host0/nic{i}",
            Kind.NIC,
            host="host0",
            speed=None if cost is None else _speed(cost, "remote_invbw"),
        )
        for gpu in gpus[i * len(gpus) // count : (i + 1) * len(gpus) // count]:
            rule = ("GPUs are assigned to NICs in order",)
            topology.link(gpu, id, LinkKind.PCIE, assumed=rule)
