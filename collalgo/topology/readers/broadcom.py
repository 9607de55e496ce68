"""Merge Broadcom PCIe switches that appear as two levels, as NCCL does."""

from typing import Any

from collalgo.topology.model import Topology


def flatten(root: Any, topology: Topology) -> None:
    """Attach the devices below the inner part of such a switch to its outer part.

    The fifth generation is 1000:c030 with a subsystem device of 0x00.. above 0x10..,
    the fourth 1000:c010 with 0xa... on both.
    """
    for outer in list(root.iter("pci")):
        for inner in list(outer):
            if inner.tag == "pci" and _is_inner(outer, inner):
                outer.remove(inner)
                outer.extend(list(inner))
                topology.warn(
                    f"PCIe switch {inner.get('busid')} is merged into "
                    f"{outer.get('busid')}, as in NCCL"
                )


def _is_inner(outer: Any, inner: Any) -> bool:
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    ours, its = ([_hex(e.get(name)) for name in names] for e in (outer, inner))
    if ours[:3] != its[:3] or ours[0] != 0x1000 or ours[2] != 0x1000:
        return False
    if ours[1] == 0xC030:
        return ours[3] & 0xFF00 == 0x0000 and its[3] & 0xFF00 == 0x1000
    return ours[1] == 0xC010 and ours[3] & 0xF000 == its[3] & 0xF000 == 0xA000


def _hex(text: str | None) -> int:
    try:
        return int(text or "", 16)
    except ValueError:
        return -1
