"""Where ranks with arrays on devices are, and what the candidates cost there."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from collalgo.cost.link_model import LinkModel
from collalgo.engine.devices.peers import Tell
from collalgo.engine.devices.runtime import Runtime
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology import ranks
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.nvml import short_busid
from collalgo.topology.path_types import PathType

#: Seconds of a message between two devices: two flags, and what waits for them.
#: Reckoned, not measured.
LATENCY = 2e-6

#: How often a byte that is received touches the memory of a device: it is read and
#: written; what it is reduced with is read, too.
TOUCHED, REDUCED = 2, 1


def figures(reduction: float = 0.0) -> LinkModel:
    """What messages cost between devices that read each other's memory.

    Parameters
    ----------
    reduction
        Seconds for each byte that a rank reduces.
    """
    near = (path for path in PathType if path not in (PathType.LOC, PathType.NET))
    latency = dict(LinkModel().latency) | dict.fromkeys(near, LATENCY)
    return LinkModel(latency, reduction=reduction)


def survey(runtime: Runtime, leads: bool, gather: Tell) -> TopologyPricer:
    """The prices for calls between the devices of some ranks, the same on all of them.

    Parameters
    ----------
    runtime
        Of this rank.
    leads
        Whether this rank describes its host.
    gather
        Gives what each rank has told.
    """
    mine: dict[str, Any] = {
        "identity": ranks.identity(),
        "bus": short_busid(runtime.bus_id),
        "bandwidth": runtime.bandwidth,
    }
    if leads:
        mine |= ranks.local_view()
    return prospect([json.loads(part) for part in gather(json.dumps(mine).encode())])


def prospect(parts: Sequence[dict[str, Any]]) -> TopologyPricer:
    """The prices on the devices that ranks have told of, or on what stands for them."""
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
            return TopologyPricer(topology, figures(), found)
    return shared(len(parts), min(part["bandwidth"] for part in parts))


@lru_cache(maxsize=64)
def shared(size: int, bandwidth: float) -> TopologyPricer:
    """The prices on one device that all ranks share, or of which no more is known."""
    topology = Topology(f"one device shared by {size} ranks", "of its memory")
    topology.add("memory", Kind.NVSWITCH, host="host0")
    share = bandwidth / size
    for rank in range(size):
        part = topology.add(f"part{rank}", Kind.GPU, host="host0")
        topology.link(part, "memory", LinkKind.NVLINK, share / TOUCHED)
    return TopologyPricer(topology, figures(REDUCED / (share * 1e9)))
