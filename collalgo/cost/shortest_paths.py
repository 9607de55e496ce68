"""All equally short paths from a device, and the division of a message over them.

Parallel ways carry parts of a message in proportion to their widths, as packets are
spread over the NVSwitches of a GPU, the NICs of a host or the spines of a CLOS.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from collalgo.topology.link_index import Hop, Search
from collalgo.topology.model import Link

#: GB/s of a link of unknown bandwidth: more than any other, and finite.
UNLIMITED = 1e18

#: Flows that exceed the bandwidth of a link by a smaller part do not.
ROUNDED = 1e-6

#: The most times that a message is divided again because of an overloaded link.
ATTEMPTS = 8


class Way(NamedTuple):
    """The last link of some paths to a device, from the device before it.

    Attributes
    ----------
    start : str
        The device before.
    link : Link
        The link.
    width : float
        Its GB/s.
    narrowest : float
        The GB/s of the narrowest link since the paths to the device parted.
    """

    start: str
    link: Link
    width: float
    narrowest: float


class ShortestPaths:
    """All paths with the fewest links from a device.

    Parameters
    ----------
    search
        The first device, and the links by which paths continue.
    least_width
        The GB/s of the narrowest links that may be used.
    """

    def __init__(self, search: Search, least_width: float = 0.0):
        self._before: dict[str, list[Way]] = {search.source: []}
        #: The number of links to each device.
        self.distance = {search.source: 0}
        #: The GB/s that all paths to each device carry together, at most.
        self._capacity = {search.source: UNLIMITED}
        #: The devices to which several ways differ in what they carry.
        self._uneven: set[str] = set()
        frontier = [search.source]
        while frontier:
            frontier = self._next(search, frontier, least_width)

    def _next(
        self, search: Search, frontier: Sequence[str], least_width: float
    ) -> list[str]:
        """The devices that one more link reaches."""
        reached: dict[str, list[Way]] = defaultdict(list)
        for here in frontier:
            for hop in search.onward(here):
                if hop.other not in self._before and _carries(hop, least_width):
                    width = min(hop.width, UNLIMITED)
                    reached[hop.other].append(Way(here, hop.link, width, width))
        for device, ways in _with_narrowest(reached, self._before).items():
            self._before[device] = reached[device] = ways
        for device, ways in reached.items():
            start, _, width, _ = ways[0]
            self.distance[device] = self.distance[start] + 1
            if len(ways) == 1:
                self._capacity[device] = min(width, self._capacity[start])
                continue
            most = [min(way.width, self._capacity[way.start]) for way in ways]
            self._capacity[device] = sum(most)
            if len(set(most)) > 1 or len({way.narrowest for way in ways}) > 1:
                self._uneven.add(device)
        return list(reached)

    def loads(self, target: str) -> list[tuple[str, Link, float]]:
        """The start of each link to a target, the link, and the part of a message."""
        if not self._uneven:
            return self._even_loads(target)
        layers = self._layers(target)
        if all(map(self._uneven.isdisjoint, layers)):
            return self._even_loads(target)
        return self._uneven_loads(layers)

    def _even_loads(self, target: str) -> list[tuple[str, Link, float]]:
        """The loads where all ways to a device are alike."""
        loads = []
        frontier = {target: 1.0}
        while frontier:
            nearer: dict[str, float] = defaultdict(float)
            for here, part in frontier.items():
                share = part / max(len(self._before[here]), 1)
                for way in self._before[here]:
                    loads.append((way.start, way.link, share))
                    nearer[way.start] += share
            frontier = nearer
        return loads

    def _uneven_loads(
        self, layers: Sequence[Collection[str]]
    ) -> list[tuple[str, Link, float]]:
        """The loads where no link has more to carry than it can, if possible."""
        capacity, shares = self._capacity, dict[str, float]()
        for _ in range(ATTEMPTS):
            flow = min(sum(map(capacity.__getitem__, layer)) for layer in layers)
            flows = self._flows(layers, flow, capacity, shares)
            if not (too_much := self._overloads(flows)):
                break
            for device, times in too_much.items():
                shares[device] = shares.get(device, 1.0) / times
            capacity = self._capacities(layers, shares)
        return [
            (way.start, way.link, amount / flow)
            for device, amounts in flows.items()
            for way, amount in zip(self._before[device], amounts, strict=True)
        ]

    def _layers(self, target: str) -> list[set[str]]:
        """The devices on the paths to a target by their distance from it."""
        layers = [{target}]
        while layer := {way.start for one in layers[-1] for way in self._before[one]}:
            layers.append(layer)
        return layers

    def _flows(
        self,
        layers: Sequence[Collection[str]],
        flow: float,
        capacity: Mapping[str, float],
        shares: Mapping[str, float],
    ) -> dict[str, list[float]]:
        """The GB/s by each way to each device, so that a flow reaches the target."""
        amounts: dict[str, float] = defaultdict(float, dict.fromkeys(layers[0], flow))
        flows = {}
        for device in (device for layer in layers for device in layer):
            ways = self._before[device]
            most = [_most(way, capacity, shares) for way in ways]
            widths = [way.narrowest for way in ways]
            flows[device] = divided(amounts[device], widths, most)
            for way, part in zip(ways, flows[device], strict=True):
                amounts[way.start] += part
        return flows

    def _overloads(self, flows: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """The number of devices whose inflow exceeds their links.

        That happens where several ways share those before them.
        """
        found = {}
        for device, amounts in flows.items():
            pairs = zip(self._before[device], amounts, strict=True)
            most = max((amount / way.width for way, amount in pairs), default=0.0)
            if most > 1 + ROUNDED:
                found[device] = most
        return found

    def _capacities(
        self, layers: Sequence[Collection[str]], shares: Mapping[str, float]
    ) -> dict[str, float]:
        """The GB/s to each device, where ways share those before them."""
        found: dict[str, float] = {}
        for device in (device for layer in reversed(layers) for device in layer):
            ways = self._before[device]
            each = sum(_most(way, found, shares) for way in ways)
            found[device] = each if ways else UNLIMITED
        return found


def _with_narrowest(
    reached: Mapping[str, Sequence[Way]], before: Mapping[str, Sequence[Way]]
) -> dict[str, list[Way]]:
    """The ways of a layer with the narrowest links since the paths to it parted.

    They part where a device leads to several, and meet where several lead to one.
    """
    leads = Counter(way.start for ways in reached.values() for way in ways)

    def narrowest(way: Way) -> float:
        ways = before[way.start]
        if leads[way.start] > 1 or len(ways) != 1:
            return way.width
        return min(way.width, ways[0].narrowest)

    return {
        device: [way._replace(narrowest=narrowest(way)) for way in ways]
        for device, ways in reached.items()
    }


def _most(
    way: Way, capacity: Mapping[str, float], shares: Mapping[str, float]
) -> float:
    """The GB/s that a way carries at most."""
    return min(way.width, capacity[way.start] * shares.get(way.start, 1.0))


def _carries(hop: Hop, least_width: float) -> bool:
    """Whether a link carries anything, and at least so much."""
    return hop.width > 0 and hop.width >= least_width


def divided(
    amount: float, widths: Sequence[float], most: Sequence[float]
) -> list[float]:
    """Divide an amount over ways in proportion to their widths, up to a most of each.

    What is more than all ways take is divided in proportion to the most of each.

    Examples
    --------
    >>> divided(90, [50, 40, 40, 50], [50, 40, 40, 50])
    [25.0, 20.0, 20.0, 25.0]
    >>> divided(90, [50, 50], [20, 100])
    [20, 70.0]
    """
    if len(widths) == 1:
        return [amount]
    if amount >= sum(most):
        return [amount * each / sum(most) for each in most]
    parts, left, wide = [0.0] * len(widths), amount, sum(widths)
    for i in sorted(range(len(widths)), key=lambda i: most[i] / widths[i]):
        parts[i] = min(most[i], left * widths[i] / wide)
        left -= parts[i]
        wide -= widths[i]
    return parts
