"""The elements and attributes of NCCL's XML, and the form of its classes."""

import re
from typing import Any

from collalgo.topology.model import Topology
from collalgo.topology.readers.unknown_words import warn_of_attributes, warn_of_unknown

#: The attributes of each element; ``keep`` is a mark of NCCL's own.
ATTRIBUTES = {
    "system": {"version"},
    "cpu": {"numaid", "affinity", "arch", "vendor", "familyid", "modelid",
            "host_hash", "keep"},
    "pci": {"busid", "class", "vendor", "device", "subsystem_vendor",
            "subsystem_device", "link_speed", "link_width", "keep"},
    "gpu": {"dev", "sm", "gcn", "arch", "rank", "gdr", "mlopart", "keep"},
    "nic": {"keep"},
    "net": {"name", "dev", "latency", "speed", "port", "guid", "maxconn", "gdr", "coll",
            "rail", "keep"},
    "nvlink": {"target", "count", "tclass"},
    "xgmi": {"target", "count", "tclass"},
    "pcilink": {"target"},
    "c2c": {"bw", "count"},
}  # fmt: skip

CLASS = re.compile(r"0x[0-9a-fA-F]{4,6}")


def check_words(root: Any, topology: Topology) -> None:
    """Warn of what is unknown below NICs, of unknown attributes, and of odd classes.

    The reader refuses unknown elements elsewhere.
    """
    for nic in root.iter("nic"):
        tags = [child.tag for child in nic]
        warn_of_unknown(topology, "<nic> has the element", tags, ("net",))
    warn_of_attributes(topology, root, ATTRIBUTES)
    for device in root.iter("pci"):
        given = device.get("class", "")
        if given and not CLASS.fullmatch(given):
            topology.warn(
                f"the class {given[:60]!r} of {device.get('busid', '')[:60]} does not "
                "have the form 0x020000, so the device may be of another kind"
            )
