"""InfiniBand fabrics: the output of ``ibnetdiscover``, and nets of ibsim.

The block of a node begins with its kind, number of ports and name; a line for each
cable follows, which occurs again in the block of the other end.
"""

import re

from collalgo.errors import TopologyError
from collalgo.topology import constants
from collalgo.topology.model import Kind, LinkKind, Topology

NODE = re.compile(r'(Switch|Ca|Hca|Rt)\s+(\d{1,4})\s+"([^"]{1,200})"(.*)')
PORT = re.compile(
    r'\[(\d{1,4})\](?:\([0-9a-fx]*\))?\s*"([^"]{1,200})"\s*\[(\d{1,4})\](.*)'
)
COMMENT = re.compile(r'#\s*"([^"]*)"')
SPEED = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
WIDTH = re.compile(r"\bw=(1|4|8|12)\b")

#: The name of an adapter that is a switch's own processor for reductions.
AGGREGATION = "Aggregation Node"


def recognises(text: str) -> bool:
    """A line that begins a block."""
    return bool(re.search(r'^(Switch|Ca|Hca|Rt)\s+\d+\s+"', text, re.MULTILINE))


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the blocks."""
    Fabric(topology).read(text)


class Fabric:
    """The state of reading one file: nodes by their names, cables by their ports."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.ids: dict[str, str] = {}
        self.left_out: set[str] = set()
        self.ends: dict[tuple[str, int], tuple[str, int]] = {}
        self.speeds: dict[tuple[str, int], float | None] = {}

    def read(self, text: str) -> None:
        node = ""
        for i, line in enumerate(text.splitlines(), 1):
            words = line.strip()
            if found := NODE.match(words):
                node = self._node(found)
            elif (found := PORT.match(words)) and node:
                self._port(node, found, i)
            elif words.split(" ")[0] in ("include", "do"):
                self.topology.warn(f"line {i}: {words[:40]!r} is ignored")
        self._cables()

    def _node(self, found: re.Match[str]) -> str:
        kind, ports, key, rest = found.groups()
        comment = COMMENT.search(rest)
        name = comment[1] if comment else key
        if AGGREGATION in name:
            self.left_out.add(key)
            return key
        if key in self.ids:
            self.topology.warn(f"node {key} has two blocks")
            return key
        is_switch = kind in ("Switch", "Rt")
        # The name of an adapter is "host device"; a host may have several.
        host = "" if is_switch else name.split()[0] if name.split() else key
        self.ids[key] = self.topology.add(
            key if is_switch else f"{host}/{key}",
            Kind.SWITCH if is_switch else Kind.NIC,
            host=host,
            name=name,
            ports=int(ports),
        )
        return key

    def _port(self, node: str, found: re.Match[str], line: int) -> None:
        port, peer, peer_port, rest = found.groups()
        if AGGREGATION in rest:
            self.left_out.add(peer)
        end, other = (node, int(port)), (peer, int(peer_port))
        if self.ends.setdefault(end, other) != other:
            self.topology.warn(f"line {line}: port {port} of {node} has two cables")
            return
        speed = SPEED.search(rest)
        width = WIDTH.search(rest)
        if speed:
            self.speeds[end] = constants.infiniband(int(speed[1]), speed[2])
        elif width:
            self.topology.warn("widths without speeds: bandwidths are unknown")

    def _cables(self) -> None:
        done = set()
        for end, other in self.ends.items():
            if self.left_out & {end[0], other[0]} or end in done:
                continue
            unknown = next((n for n, _ in (end, other) if n not in self.ids), None)
            if unknown is not None:
                self._unknown(unknown)
            if self.ends.get(other, end) != end:
                back = self.ends[other]
                raise TopologyError(
                    f"port {end[1]} of {end[0]} leads to port {other[1]} of "
                    f"{other[0]}, which leads to port {back[1]} of {back[0]}"
                )
            done.add(other)
            speed = self.speeds.get(end) or self.speeds.get(other)
            a, b = self.ids[end[0]], self.ids[other[0]]
            self.topology.link(a, b, LinkKind.NETWORK, speed)

    def _unknown(self, key: str) -> None:
        """Add a node without a block; the file then covers a part of the fabric."""
        kind = Kind.SWITCH if key.upper().startswith("S") else Kind.NIC
        self.topology.warn(f"node {key} has no block of its own")
        host = "" if kind is Kind.SWITCH else key
        id = key if kind is Kind.SWITCH else f"{key}/nic0"
        self.ids[key] = self.topology.add(id, kind, host=host, name=key)
