"""The placement of ranks with arrays on devices, and the prices of candidates there."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from collalgo.cost.link_model import LinkModel
from collalgo.engine.devices.peers import Exchange
from collalgo.engine.devices.runtime import Runtime
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology import ranks
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.nvml import short_busid
from collalgo.topology.path_types import PathType

#: Seconds of a message between two devices: two flags and their waits. Computed, not
#: measured.
LATENCY = 2e-6

#: The accesses to the memory of a device for a received byte: it is read and written;
#: the other operand of a reduction is read, too.
TOUCHED, REDUCED = 2, 1


def link_model(reduction: float = 0.0) -> LinkModel:
    """The costs of messages between devices that read each other's memory.

    Parameters
    ----------
    reduction
        Seconds for each byte that a rank reduces.
    """
    near = (path for path in PathType if path not in (PathType.LOC, PathType.NET))
    latency = dict(LinkModel().latency) | dict.fromkeys(near, LATENCY)
    return LinkModel(latency, reduction=reduction)


def gathered_pricer(
    runtime: Runtime, is_first: bool, gather: Exchange
) -> TopologyPricer:
    """The prices for calls between the devices of some ranks, the same on all of them.

    Parameters
    ----------
    runtime
        Of this rank.
    is_first
        Whether this rank is the first of its host, which it describes.
    gather
        Exchanges bytes among all ranks.
    """
    mine: dict[str, Any] = {
        "identity": ranks.identity(),
        "bus": short_busid(runtime.bus_id),
        "bandwidth": runtime.bandwidth,
    }
    if is_first:
        mine |= ranks.local_view()
    return pricer_of([json.loads(part) for part in gather(json.dumps(mine).encode())])


def pricer_of(parts: Sequence[dict[str, Any]]) -> TopologyPricer:
    """The prices on the devices of the ranks, or on one that they share."""
    places = [(part["identity"], part["bus"]) for part in parts]
    if len(set(places)) == len(places):
        leaders = [part for part in parts if "machine" in part]
        topology = ranks.merge(leaders)
        names = {part["identity"]: f"host{i}" for i, part in enumerate(leaders)}
        known = {
            (gpu.host, short_busid(gpu.attributes.get("busid", ""))): gpu.id
            for gpu in topology.devices(Kind.GPU)
        }
        if all((names[host], bus) in known for host, bus in places):
            found = [known[names[host], bus] for host, bus in places]
            return TopologyPricer(topology, link_model(), found)
    return shared(len(parts), min(part["bandwidth"] for part in parts))


@lru_cache(maxsize=64)
def shared(size: int, bandwidth: float) -> TopologyPricer:
    """The prices on one device that all ranks share, or on unknown devices."""
    topology = Topology(f"one device shared by {size} ranks", "of its memory")
    topology.add("memory", Kind.NVSWITCH, host="host0")
    share = bandwidth / size
    for rank in range(size):
        part = topology.add(f"part{rank}", Kind.GPU, host="host0")
        topology.link(part, "memory", LinkKind.NVLINK, share / TOUCHED)
    return TopologyPricer(topology, link_model(REDUCED / (share * 1e9)))
