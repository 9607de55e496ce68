"""Twins: devices with one link each, alike, to the same device.

A machine is the same if two twins change places, and no path leads through one. So the
paths of two twins of each kind are those of all, as of the hosts below a switch.
"""

from collections import defaultdict

from collalgo.topology.model import Topology


class Twins:
    """The twins of a topology.

    Attributes
    ----------
    reduced : Topology
        The topology with at most two of each twins.
    """

    def __init__(self, topology: Topology):
        alike: dict[object, list[str]] = defaultdict(list)
        for device in topology.devices():
            links = list(topology.links_of(device.id))
            if len(links) == 1:
                (link,) = links
                what = (link.kind, link.bandwidth, link.count, link.latency)
                where = (link.other(device.id), device.kind, device.host)
                alike[where, what].append(device.id)
        self._pair = {
            id: (ids[0], ids[1]) for ids in alike.values() if len(ids) > 2 for id in ids
        }
        kept = {one for pair in self._pair.values() for one in pair}
        dropped = self._pair.keys() - kept
        self.reduced = topology
        if dropped:
            all_ids = (device.id for device in topology.devices())
            self.reduced = topology.part({id for id in all_ids if id not in dropped})

    def kept(self, id: str) -> tuple[str, ...]:
        """The devices of the reduced topology that a device is like."""
        return self._pair.get(id, (id,))

    def like(self, a: str, b: str) -> tuple[str, str]:
        """Two devices of the reduced topology with the paths from a to b."""
        first, second = self.kept(a), self.kept(b)
        return first[0], second[a != b and first == second]
