"""The cables of SimGrid's links and clusters, with its units."""

import re
from typing import Any

from collalgo.base.units import TIMES
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable
from collalgo.topology.model import Topology
from collalgo.topology.values import number

#: The units of SimGrid in bytes per second and in seconds.
RATES = {"Bps": 1.0, "bps": 1 / 8}
LONG_TIMES = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0}
ALL_TIMES = {**TIMES, **LONG_TIMES, "ps": 1e-12}
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10,
            "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip


def rate(text: str, what: str) -> float:
    """GB/s of "125MBps" or "1Gbps"; a bare number is bytes per second."""
    found = re.fullmatch(r"\s*([\d.eE+-]{1,30})\s*([KMGTk]?i?)(Bps|bps)?\s*", text)
    if found is None or found[2] not in PREFIXES:
        raise TopologyError(f"{what}: {text[:40]!r} is not a bandwidth")
    unit = RATES[found[3] or "Bps"] * PREFIXES[found[2]]
    return number(found[1], what) * unit / 1e9


def seconds(text: str, what: str) -> float:
    """Seconds of "50us"; a bare number is seconds."""
    found = re.fullmatch(r"\s*([\d.]{1,30}(?:[eE][+-]?\d{1,3})?)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in ALL_TIMES:
        raise TopologyError(f"{what}: {text[:40]!r} is not a time")
    return number(found[1], what) * ALL_TIMES[found[2]]


def cable_of(element: Any, bandwidth: str, latency: str) -> Cable:
    """The cable that two attributes of an element describe."""
    what = element.get("id", "")
    speed = element.get(bandwidth)
    return Cable(
        None if speed is None else rate(speed.split(",")[0], f"{what} {bandwidth}"),
        seconds(element.get(latency, "0"), f"{what} {latency}"),
    )


def limited(topology: Topology, element: Any, hosts: int) -> Cable:
    """The cable of a host of a cluster, with its share of what it has in common.

    All hosts of a flat cluster share its backbone, and the two directions of a host its
    limit. The shares are exact if all hosts send and receive at once.
    """
    cable = cable_of(element, "bw", "lat")
    if element.get("topology", "FLAT") == "FLAT":
        backbone = cable_of(element, "bb_bw", "bb_lat")
        is_shared = element.get("bb_sharing_policy") != "FATPIPE"
        part = backbone.narrowed(1 / hosts if is_shared and hosts else 1.0)
        cable = _narrowed(topology, element, cable, part, "bb_bw")
        if backbone.bandwidth is not None:  # each message crosses two cables
            latency = (cable.latency or 0.0) + (backbone.latency or 0.0) / 2
            cable = cable._replace(latency=latency)
    limit = cable_of(element, "limiter_link", "").narrowed(1 / 2)
    return _narrowed(topology, element, cable, limit, "limiter_link")


def _narrowed(
    topology: Topology, element: Any, cable: Cable, part: Cable, name: str
) -> Cable:
    """A cable that has at most the width of a part of another one, with a warning."""
    speed = part.bandwidth
    if speed is None or (cable.bandwidth is not None and cable.bandwidth <= speed):
        return cable
    topology.warn(
        f"cluster {element.get('id', '')}: all hosts share {name}; each has "
        f"{speed:.3g} GB/s here, its share if all send and receive at once, so a "
        "message while others wait is priced too high"
    )
    return cable._replace(bandwidth=speed)
