"""NCCL's XML of the rings and trees that it found (NCCL_GRAPH_FILE)."""

from itertools import pairwise
from typing import Any

from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.readers.text import root_tag, xml
from collalgo.topology.values import integer, number

#: The pattern whose channels are closed rings.
RING = "4"

#: The kind of link of a channel between GPUs, by the type of its path.
OVER = {"NVL": LinkKind.NVLINK, "NVB": LinkKind.NVLINK, "SYS": LinkKind.SMP,
        "NET": LinkKind.NETWORK}  # fmt: skip


def recognises(text: str) -> bool:
    """Whether the outermost element is ``graphs``."""
    return root_tag(text) == "graphs"


def parse(text: str, topology: Topology) -> None:
    """Add the GPUs and NICs, linked along the channels of the rings.

    Trees and other graphs add warnings only: they share the links of the rings.
    """
    for graph in xml(text):
        ring = graph.get("pattern") == RING
        channels = [_ids(channel, topology) for channel in graph.iter("channel")]
        speed = number(graph.get("speedintra", "0"), "speedintra")
        kind = OVER.get(graph.get("typeintra", ""), LinkKind.PCIE)
        if not ring:
            topology.warn(
                f"graph {graph.get('id')} (pattern {graph.get('pattern')}, "
                f"{len(channels)} channels) is not a ring and adds no links"
            )
            continue
        for channel in channels:
            closed = [*channel, channel[0]] if len(channel) > 2 else channel
            for a, b in pairwise(closed):
                topology.link(a, b, kind, speed, assumed=("the speed of a channel",))


def _ids(channel: Any, topology: Topology) -> list[str]:
    """The devices of a channel in order, added at first use."""
    found = []
    for element in channel:
        kind = Kind.NIC if element.tag == "net" else Kind.GPU
        # NCCL writes these numbers in hexadecimal and without a prefix.
        what = f"dev of a {kind.value}"
        number_of = integer(f"0x{element.get('dev', '')}", what)
        id = f"host0/{kind.value}{number_of}"
        if id not in topology:
            topology.add(id, kind, host="host0")
        found.append(id)
    return found
