"""What a picture of a topology shows: boxes of devices or hosts, and lines of links."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from collalgo.base.hostlist import fold
from collalgo.topology.assumed import marked
from collalgo.topology.domains import distance_from_hosts, host_named
from collalgo.topology.model import FAST, Device, Kind, Link, LinkKind, Topology

#: The layers of a machine, from the top; NICs are among the GPUs of their switches.
LAYERS = (
    *(Kind.SWITCH, Kind.NVSWITCH, Kind.GPU, Kind.CARD, Kind.PCI, Kind.ROOT),
    *(Kind.CPU, Kind.CORE),
)

#: The most hosts that have a box each; of more, equal ones share one, as switches do.
MOST_HOSTS = 16

#: The most characters of the names of hosts in a box.
LONGEST = 24


class Box(NamedTuple):
    """A box: its text, its layer from the top, its devices, and the GB/s of a NIC."""

    label: str
    kind: Kind
    layer: int
    devices: Sequence[str]
    speed: str = ""


class Line(NamedTuple):
    """Links of one kind and speed between two boxes, and the remaining fraction."""

    ends: tuple[str, str]
    links: Sequence[Link]
    left: float

    @property
    def kind(self) -> LinkKind:
        return self.links[0].kind

    @property
    def speed(self) -> str:
        """The GB/s of a cable, in words."""
        return speed_of(self.links[0])

    @property
    def is_assumed(self) -> bool:
        """Whether the speed of a link is assumed."""
        return any(marked(link.assumed) for link in self.links)

    @property
    def label(self) -> str:
        """The number of cables and their speed, as "4 x 12.5"."""
        count = sum(link.count for link in self.links)
        return f"{count} x {self.speed}" if count > 1 else self.speed


class Sketch(NamedTuple):
    """The boxes by their names, and the lines; ``is_network`` if boxes are hosts."""

    boxes: dict[str, Box]
    lines: list[Line]
    is_network: bool = False


def speed_of(link: Link) -> str:
    """The GB/s of one cable of a link, in words."""
    return f"{link.bandwidth / link.count:.4g}" if link.bandwidth else "?"


def left_of(links: Sequence[Link], topology: Topology) -> float:
    """The fraction of the bandwidth of whole links that a machine with faults has."""
    rest = whole = 0.0
    for link in links:
        known = topology.between(*link.ends).get(link.kind)
        bandwidth = link.bandwidth or 1.0
        rest += bandwidth * known.fraction if known else 0.0
        whole += bandwidth * link.fraction
    return rest / whole


def sketch_of(topology: Topology, host: str | None, left: Topology) -> Sketch:
    """The devices of a host, or the hosts on their network if there are several.

    ``left`` is the topology with its faults.
    """
    if host is None and len(topology.hosts) > 1:
        return _network(topology, left)
    return _machine(topology, host_named(topology, host), left)


def _lines(
    topology: Topology, box_of: dict[str, str], left: Topology
) -> Iterator[Line]:
    """The lines between boxes; links of one kind and speed are one line."""
    found: dict[tuple[str, str, LinkKind, str], list[Link]] = defaultdict(list)
    for link in topology.links:
        a, b = (box_of.get(end, "") for end in link.ends)
        if a and b and a != b:
            found[min(a, b), max(a, b), link.kind, speed_of(link)].append(link)
    for (a, b, *_), links in found.items():
        yield Line((a, b), links, left_of(links, left))


def _machine(topology: Topology, host: str, left: Topology) -> Sketch:
    """The devices of a host, with NVSwitches outside of hosts."""
    inside = [d for d in topology.devices() if host in (d.host, d.id)]
    if any(link.kind in FAST for d in inside for link in topology.links_of(d.id)):
        inside += [d for d in topology.devices(Kind.NVSWITCH) if not d.host]
    found = {device.id: _device_box(topology, device, host) for device in inside}
    boxes = {id: found[id] for id in _tree_order(topology, list(found))}
    return Sketch(boxes, list(_lines(topology, {id: id for id in boxes}, left)))


def _device_box(topology: Topology, device: Device, host: str) -> Box:
    label, speed = device.id.removeprefix(f"{host}/"), ""
    if device.kind is Kind.NIC:
        label = device.name or label
        speeds = {
            speed_of(link)
            for link in topology.links_of(device.id)
            if link.kind is LinkKind.NETWORK
        }
        known = device.attributes.get("speed")
        if isinstance(known, float | int) and not speeds:
            speeds = {f"{known:.4g}"}
        speed = ", ".join(sorted(speeds))
        label = f"{label}\n{speed} GB/s" if speed else label
    layer = Kind.GPU if device.kind is Kind.NIC else device.kind
    row = LAYERS.index(layer) if layer in LAYERS else 0
    return Box(label, device.kind, row, [device.id], speed)


def _tree_order(topology: Topology, ids: list[str]) -> list[str]:
    """Devices in depth-first order from the CPUs, so that siblings are adjacent."""
    order: dict[str, None] = {}
    wanted = set(ids)

    def visit(id: str) -> None:
        order[id] = None
        for link in topology.links_of(id):
            other = link.other(id)
            kinds = {topology.device(end).kind for end in link.ends}
            down = link.kind is LinkKind.PCIE or kinds == {Kind.CPU, Kind.GPU}
            if down and other in wanted and other not in order:
                visit(other)

    for id in (*(d.id for d in topology.devices(Kind.CPU) if d.id in wanted), *ids):
        if id not in order:
            visit(id)
    return list(order)


def _network(topology: Topology, left: Topology) -> Sketch:
    """The hosts, as one box each, below the levels of switches."""
    distance = distance_from_hosts(topology)
    members: dict[str, list[Device]] = defaultdict(list)
    for device in topology.devices():
        members[_box_name(device)].append(device)
    boxes = {
        name: _network_box(name, devices, distance) for name, devices in members.items()
    }
    box_of = {id: name for name, box in boxes.items() for id in box.devices}
    return _folded(Sketch(boxes, list(_lines(topology, box_of, left)), True), left)


def _is_of_fabric(device: Device) -> bool:
    return device.kind in (Kind.SWITCH, Kind.NVSWITCH) and not device.host


def _box_name(device: Device) -> str:
    return device.id if _is_of_fabric(device) else device.host or device.id


def _network_box(
    name: str, devices: Sequence[Device], distance: Mapping[str, int]
) -> Box:
    """The box of a switch, or of a host with the numbers of its GPUs and NICs."""
    ids, first = [device.id for device in devices], devices[0]
    if _is_of_fabric(first):
        return Box(name, first.kind, min(-distance.get(name, 1), -1), ids)
    counts = Counter(device.kind for device in devices)
    contents = (
        f"{counts[kind]} {kind.value.upper()}"
        for kind in (Kind.GPU, Kind.NIC)
        if counts[kind]
    )
    kind = Kind.HOST if first.host else first.kind
    return Box("\n".join([name, *contents]), kind, 0, ids)


def _folded(sketch: Sketch, left: Topology) -> Sketch:
    """A network whose equal hosts and switches share a box, if there are many hosts."""
    hosts = [name for name, box in sketch.boxes.items() if box.kind is Kind.HOST]
    if len(hosts) <= MOST_HOSTS:
        return sketch
    folded = _without_twins(sketch, [Kind.HOST], left)
    return _without_twins(folded, [Kind.SWITCH, Kind.NVSWITCH], left)


def _without_twins(sketch: Sketch, kinds: Sequence[Kind], left: Topology) -> Sketch:
    """A network in which boxes with the same links share one, by kinds."""
    links = _links_of(sketch)
    groups: dict[object, list[str]] = defaultdict(list)
    for name, box in sketch.boxes.items():
        is_beside = any(sketch.boxes[o].layer == box.layer for o, *_ in links[name])
        alone = name if is_beside or box.kind not in kinds else ""  # stays where it is
        lost = sum(id not in left for id in box.devices)
        contents = box.label.partition("\n")[2]
        groups[alone, box.kind, contents, lost, frozenset(links[name])].append(name)
    first = {name: names[0] for names in groups.values() for name in names}
    boxes = {
        names[0]: _shared([sketch.boxes[each] for each in names])
        for names in groups.values()
    }
    return Sketch(boxes, _joined(sketch.lines, first), True)


def _links_of(sketch: Sketch) -> dict[str, list[tuple[str, str, LinkKind, float]]]:
    """For each box the others that it is linked to, and how."""
    found: dict[str, list[tuple[str, str, LinkKind, float]]] = defaultdict(list)
    for line in sketch.lines:
        for end, other in (line.ends, line.ends[::-1]):
            found[end].append((other, line.label, line.kind, line.left))
    return found


def _shared(boxes: Sequence[Box]) -> Box:
    """The box of several hosts or switches that are alike."""
    if len(boxes) == 1:
        return boxes[0]
    noun = "hosts" if boxes[0].kind is Kind.HOST else "switches"
    (name, *contents) = boxes[0].label.split("\n")
    names = fold([name, *(box.label.partition("\n")[0] for box in boxes[1:])])
    short = names if len(names) <= LONGEST else f"{names[: LONGEST - 3]}..."
    each = [f"{len(boxes)} x {line}" for line in contents] or [f"{len(boxes)} {noun}"]
    devices = [id for box in boxes for id in box.devices]
    return boxes[0]._replace(label="\n".join([short, *each]), devices=devices)


def _joined(lines: Sequence[Line], first: Mapping[str, str]) -> list[Line]:
    """The lines between boxes of several hosts."""
    found: dict[tuple[object, ...], list[Line]] = defaultdict(list)
    for line in lines:
        a, b = sorted(first.get(end, end) for end in line.ends)
        found[a, b, line.kind, line.speed, line.left].append(line)
    return [
        Line((str(a), str(b)), [x for line in each for x in line.links], each[0].left)
        for (a, b, *_), each in found.items()
    ]
