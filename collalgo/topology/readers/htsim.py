"""Topologies of htsim: tiers of switches, given by radix and speed."""

import re

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.unknown_words import warn_of_keys
from collalgo.topology.values import integer, number

#: The fields of the header and of a tier, in small letters.
_OF_HEADER = {"nodes", "podsize", "tiers"}
_OF_TIER = {"downlink_speed_gbps", "downlink_latency_ns", "switch_latency_ns",
            "radix_down", "radix_up", "bundle", "oversubscribed", "queue_up",
            "queue_down"}  # fmt: skip

#: A field of the header or of a tier.
LINE = re.compile(r"^[ \t]*([A-Za-z_]+)\s+([\d.]+)\s*(?:#.*)?$")

LARGEST = 100_000


def recognises(text: str) -> bool:
    """The fields at the beginning of these files."""
    return all(
        re.search(rf"^[ \t]*{k}[ \t]+\d", text, re.MULTILINE)
        for k in ("Nodes", "Tiers")
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology, tier by tier from the hosts."""
    head, tiers = _fields(text)
    warn_of_keys(topology, "the header", head, _OF_HEADER)
    for tier in tiers:
        warn_of_keys(topology, "a tier", tier, _OF_TIER)
    nodes = integer(head["nodes"], "Nodes", 1, LARGEST)
    pod = integer(head.get("podsize", str(nodes)), "Podsize", 1, nodes)
    count = integer(head["tiers"], "Tiers", 1, 4)
    if len(tiers) != count:
        raise TopologyError(f"Tiers is {count}, but the file describes {len(tiers)}")
    lower = [topology.add(f"host{i}", Kind.HOST) for i in range(nodes)]
    up, per_pod = 1, pod
    for level, tier in enumerate(tiers):
        last = level == count - 1
        groups = [lower] if last and count > 1 else _split(lower, per_pod)
        upper = []
        for g, group in enumerate(groups):
            upper += _tier(topology, group, up, tier, f"tier{level}-{g}")
        per_pod = max(1, len(upper) // max(1, nodes // pod))
        lower = upper
        up = integer(tier.get("radix_up", "1"), f"tier {level} Radix_Up", 1, 4096)


def _fields(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    head: dict[str, str] = {}
    tiers: list[dict[str, str]] = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2]
        if key == "tier":
            if integer(value, "Tier") != len(tiers):
                raise TopologyError(f"Tier {value} follows {len(tiers)} others")
            tiers.append({})
        else:
            (tiers[-1] if tiers else head)[key] = value
    return head, tiers


def _split(members: list[str], size: int) -> list[list[str]]:
    return [members[i : i + size] for i in range(0, len(members), size)]


def _tier(
    topology: Topology, below: list[str], up: int, tier: dict[str, str], name: str
) -> list[str]:
    """Add the switches above some devices, each of which has ``up`` uplinks."""
    bundle = integer(tier.get("bundle", "1"), f"{name} Bundle", 1, 4096)
    down = integer(tier["radix_down"], f"{name} Radix_Down", 1, 65536)
    ports = len(below) * up
    if ports % down or ports > LARGEST * 4:
        raise TopologyError(
            f"{name}: {ports} links do not fill switches of Radix_Down {down}"
        )
    switches = [
        topology.add(f"{name}-{i}", Kind.SWITCH) for i in range(max(1, ports // down))
    ]
    cable = Cable(
        number(tier["downlink_speed_gbps"], f"{name} Downlink_speed_Gbps") / 8,
        number(tier.get("downlink_latency_ns", "0"), f"{name} Downlink_Latency_ns")
        * 1e-9,
    )
    for i, device in enumerate(below):
        for u in range(up):
            # Hosts fill one switch after the other; switches spread over the next tier.
            k = i // down if up == 1 else (i * up + u) % len(switches)
            wire(topology, device, switches[k % len(switches)], cable, bundle)
    return switches
