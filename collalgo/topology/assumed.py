"""The speeds that prices and bounds assume where a topology states none.

Each has a name, by the kind of the link and its generation; ``--assume pcie=63``
and the key ``assumed`` of a file of figures change them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from collalgo.errors import TopologyError
from collalgo.topology.domains import distance_from_hosts
from collalgo.topology.elements import check_speed
from collalgo.topology.model import FAST, Device, Kind, Link, LinkKind, Topology
from collalgo.topology.wiring import Wiring


class Speed(NamedTuple):
    """GB/s in each direction of one cable, and the name of the cable."""

    bandwidth: float
    what: str


#: The assumed speeds by name: the kind of link, and its generation.
SPEEDS: Mapping[str, Speed] = MappingProxyType(
    {
        "pcie3": Speed(15.75, "PCIe 3.0 with 16 lanes"),
        "pcie4": Speed(31.5, "PCIe 4.0 with 16 lanes"),
        "pcie5": Speed(63.0, "PCIe 5.0 with 16 lanes"),
        "nvlink1": Speed(20.0, "NVLink 1"),
        "nvlink2": Speed(25.0, "NVLink 2 to 4"),
        "nvlink5": Speed(50.0, "NVLink 5"),
        "xgmi2": Speed(46.0, "Infinity Fabric of MI50 to MI100"),
        "xgmi3": Speed(50.0, "Infinity Fabric of MI200"),
        "xgmi4": Speed(64.0, "Infinity Fabric of MI300"),
        "c2c": Speed(225.0, "NVLink-C2C of half a Grace"),
        "ici": Speed(50.0, "a link of a TPU v4"),
        "smp": Speed(20.8, "one UPI link of 10.4 GT/s"),
        "smp3": Speed(10.0, "copies between GPUs of two Skylake sockets"),
        "smp4": Speed(16.0, "copies between GPUs of two EPYC sockets"),
        "smp5": Speed(22.0, "copies between GPUs of two Sapphire Rapids sockets"),
        "core": Speed(12.8, "one channel of memory for two cores of DDR4-3200"),
        "network": Speed(12.5, "100 Gb/s"),
    }
)

#: The mark of figures that rest on such a speed.
ASSUMED = "assumed"

#: The rule of links whose ends only forward the traffic of other links.
PASSED_ON = "links that only pass data on: as much as the links below them"


def name_in(rule: str) -> str:
    """The name for ``--assume`` in a rule, as ``smp 12.8 GB/s as core, ...``."""
    found = re.search(r" GB/s as ([a-z0-9]+),", rule)
    return found[1] if found else rule.partition(" ")[0]


def names() -> list[str]:
    """The names that options accept: of one speed, or of all generations of a kind."""
    return sorted({*SPEEDS, *map(kind_of, SPEEDS)})


def kind_of(name: str) -> str:
    """The name of a speed without its generation."""
    return name.rstrip("0123456789")


def extremes(kinds: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The slowest and the fastest generation of kinds of links that have several."""
    found = {}
    for kind in kinds:
        each = [
            speed.bandwidth for name, speed in SPEEDS.items() if kind_of(name) == kind
        ]
        if len(each) > 1:
            found[kind] = min(each), max(each)
    return found


def marked(is_assumed: object) -> str:
    """The mark of a figure that rests on an assumed speed."""
    return f" ({ASSUMED})" if is_assumed else ""


def check(given: Mapping[str, float]) -> None:
    """Refuse unknown names, and speeds that no link has.

    Raises
    ------
    TopologyError
        With the name and the known ones, or the number.
    """
    for name, speed in given.items():
        if name not in names():
            raise TopologyError(
                f"there is no assumed speed {name!r}; the names are "
                f"{', '.join(names())}"
            )
        check_speed(f"{name}: a speed", speed)


def with_assumed_speeds(
    topology: Topology, given: Mapping[str, float] = MappingProxyType({})
) -> Topology:
    """A topology without unknown speeds; the same object if it has none.

    Parameters
    ----------
    topology
        The machine.
    given
        Other speeds than those of :data:`SPEEDS`, in GB/s of one cable. They also
        replace what a reader has assumed for links of their kind.
    """
    check(given)
    links = [
        link
        for link in topology.links
        if link.bandwidth is None or (given and link.assumed)
    ]
    if not links:
        return topology
    known = Topology(topology.name, topology.source)
    known.warnings = [*topology.warnings]
    known.copy_from(topology)
    rules = _Rules(topology, given)
    passing = []
    for link in links:
        if link.bandwidth is None and rules.passes_on(link):
            passing.append(link)
        elif link.bandwidth is None or rules.is_given(link):
            known.join(rules.filled(link))
    _pass_on(known, passing, rules.speed("network").bandwidth)
    return known


class _Rules:
    """The assumed speeds of the links of a topology."""

    def __init__(self, topology: Topology, given: Mapping[str, float]):
        self._device = topology.device
        self._given = given
        self._generations: dict[str, int] = defaultdict(lambda: 3)
        cables = _fast_cables(topology)
        self._with_gpus = {gpu.host for gpu in topology.devices(Kind.GPU)}
        for gpu in topology.devices(Kind.GPU):
            found = pcie_generation(gpu, cables[gpu.id])
            self._generations[gpu.host] = max(found, self._generations[gpu.host])

    def passes_on(self, link: Link) -> bool:
        """Whether a link has no speed of its own: between switches, or on a CPU."""
        kinds = {self._device(end).kind for end in link.ends}
        return kinds in ({Kind.SWITCH}, {Kind.NVSWITCH}, {Kind.ROOT, Kind.CPU})

    def is_given(self, link: Link) -> bool:
        """Whether another speed is given for a link."""
        name = self._name(link)
        return not self._given.keys().isdisjoint({name, kind_of(name)})

    def filled(self, link: Link) -> Link:
        """A link with the speed that its rule gives, or with that of its ports."""
        ports = [self._device(end).attributes.get("speed") for end in link.ends]
        known = [port for port in ports if isinstance(port, float) and port > 0]
        if known and link.kind is LinkKind.NETWORK and not self.is_given(link):
            each = min(known)
            rule, whole = f"{each:g} GB/s, its port", each
        else:
            name = self._name(link)
            each, what = self.speed(name)
            rule, whole = f"{each:g} GB/s as {name}, {what}", link.count * each
        return replace(link, bandwidth=whole * link.fraction, assumed=(rule,))

    def speed(self, name: str) -> Speed:
        """The speed of a name, which may be given for all generations of its kind."""
        each = self._given.get(name, self._given.get(kind_of(name)))
        return SPEEDS[name] if each is None else Speed(each, "as given")

    def _name(self, link: Link) -> str:
        ends = [self._device(end) for end in link.ends]
        if link.kind is LinkKind.PCIE:
            host = next((end.host for end in ends if end.host), "")
            return f"pcie{self._generations[host]}"
        if link.kind is LinkKind.NVLINK:
            return f"nvlink{_nvlink_generation(ends)}"
        if link.kind is LinkKind.XGMI:
            return f"xgmi{_xgmi_generation(ends)}"
        if link.kind is LinkKind.SMP:
            return self._between_cpus(ends)
        return str(link.kind.value)

    def _between_cpus(self, ends: Iterable[Device]) -> str:
        """Copies between devices of two sockets reach less than those of CPUs.

        The processors of a host are of the generation of its PCIe.
        """
        if Kind.CORE in [end.kind for end in ends]:
            return "core"
        host = next((end.host for end in ends if end.host in self._with_gpus), None)
        return "smp" if host is None else f"smp{self._generations[host]}"


def _fast_cables(topology: Topology) -> Counter[str]:
    """The number of NVLinks or the like of each device."""
    cables: Counter[str] = Counter()
    for link in topology.links:
        if link.kind in FAST:
            for end in link.ends:
                cables[end] += link.count
    return cables


def pcie_generation(gpu: Device, cables: int) -> int:
    """The generation of PCIe of a GPU, by its architecture or its number of NVLinks."""
    sm, gcn = gpu.attributes.get("sm"), str(gpu.attributes.get("gcn", ""))
    if isinstance(sm, int):
        return 5 if sm >= 90 else 4 if sm >= 80 else 3
    if gcn:
        return 5 if re.search(r"9[45]\d", gcn) else 4
    return 5 if cables >= 18 else 4 if cables >= 12 else 3


def _nvlink_generation(ends: Iterable[Device]) -> int:
    found = [end.attributes.get("sm") for end in ends]
    sm = max((sm for sm in found if isinstance(sm, int)), default=70)
    return 5 if sm >= 100 else 2 if sm >= 70 else 1


def _xgmi_generation(ends: Iterable[Device]) -> int:
    gcn = " ".join(str(end.attributes.get("gcn", "")) for end in ends)
    return 4 if re.search(r"9[45]\d", gcn) else 3 if re.search(r"910|90a", gcn) else 2


def _pass_on(topology: Topology, links: Iterable[Link], otherwise: float) -> None:
    """Give forwarding links the speed of the links below, nearest to the devices first.

    A link without others below it has the speed ``otherwise``, in GB/s of a cable.
    """
    distance = distance_from_hosts(topology)
    level = {device.id: _level(device, distance) for device in topology.devices()}
    uplinks = {link: sorted(link.ends, key=level.__getitem__) for link in links}
    count = Counter(lower for lower, _ in uplinks.values())
    for link in sorted(links, key=lambda link: level[uplinks[link][0]]):
        lower = uplinks[link][0]
        below = sum(
            other.bandwidth or 0.0
            for other in topology.links_of(lower)
            if level[other.other(lower)] < level[lower]
        )
        each = below / count[lower] or link.count * otherwise
        topology.join(replace(link, bandwidth=each, assumed=(PASSED_ON,)))


def _level(device: Device, distance: Mapping[str, int]) -> int:
    """How far a device is from the ends of the network, or of PCIe."""
    if device.kind is Kind.SWITCH:
        return 4 + distance.get(device.id, 0)
    inside = {Kind.CPU: 3, Kind.ROOT: 2, Kind.NVSWITCH: 1, Kind.PCI: 1}
    return inside.get(device.kind, 0)


def assumptions(topology: Topology, ranks: Iterable[str]) -> tuple[str, ...]:
    """The assumptions on the links that may be between ranks, each rule once.

    Links that lead to no other rank, as to the NICs of a single host, do not count.
    """
    rest, kept = Wiring(), {*ranks}
    rest.copy_from(topology)
    around = {device.id for device in topology.devices()}
    while ends := [
        id for id in around if id in rest and rest.degree(id) <= 1 and id not in kept
    ]:
        around = {other for id in ends for other in rest.neighbours(id)}
        rest.remove(ends)
    return rules_of(rest.links)


def rules_of(links: Iterable[Link]) -> tuple[str, ...]:
    """The assumptions on some links, each rule once."""
    rules = (f"{link.kind.value} {rule}" for link in links for rule in link.assumed)
    return tuple(dict.fromkeys(rules))
