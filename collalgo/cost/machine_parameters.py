"""The parameters of algorithms that follow the machine: grids, hosts and cycles."""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.radix import primes, square
from collalgo.algorithms.row import own_parameters
from collalgo.cost.placement import Placement
from collalgo.schedule import LANES
from collalgo.topology.axes import axes_of
from collalgo.topology.domains import host_of
from collalgo.topology.model import Kind, Topology
from collalgo.topology.rings import Ring, rings as nvlink_rings

#: The number of directed rings of a host that carry data at most.
MOST_RINGS = 12

#: The number of hosts above which not all need to exchange with all at once.
MANY = 8

#: The most hosts that a hierarchy is traced on; each is a step of its rings.
MOST_HOSTS = 2048


class MachineFeatures:
    """The properties of a machine that parameters follow, each computed once.

    Parameters
    ----------
    placement
        The device of each rank, in the order of their numbers.
    """

    def __init__(self, placement: Placement):
        self.placement = placement

    @property
    def first_host(self) -> tuple[Topology, Sequence[str]]:
        """The topology of the first host, and the devices of its ranks."""
        placement = self.placement
        if placement.cluster is not None:
            return placement.cluster.pair, placement.cluster.host_devices
        machine, devices = placement.machine, placement.devices
        assert isinstance(machine, Topology)
        first = host_of(machine, devices[0])
        return machine, [one for one in devices if host_of(machine, one) == first]

    @cached_property
    def rings(self) -> list[Ring]:
        """The rings of NVLinks through all ranks of the first host."""
        topology, each = self.first_host
        return nvlink_rings(topology, tuple(each)) if len(each) > 1 else []

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of the grid of the links; none if there are switches."""
        if self.placement.cluster is not None:
            return ()
        assert isinstance(self.placement.machine, Topology)
        return axes_of(self.placement.machine, self.placement.devices)

    def cycles_along(self, devices: Sequence[str]) -> list[list[int]]:
        """The cycles for algorithms of several rings, on equal hosts.

        Parameters
        ----------
        devices
            The devices of a host, in the order of its ranks.
        """
        topology, each = self.first_host
        hosts = self.placement.hosts
        together = _is_host_by_host(self.placement)
        if not together or len(set(hosts)) > 1 or len(each) < 2:
            return []
        nics = len(topology.devices(Kind.NIC, host=topology.hosts[0])) or 1
        order = devices[: len(each)]
        found = cycles_of(self.rings, order, len(hosts), min(nics, len(each)))
        return found[:MOST_RINGS]


def fitted(row: Algorithm, placement: Placement) -> Algorithm:
    """An algorithm with the parameters of a machine, unless the caller passes them.

    Ranks that go from host to host and back have neither a grid nor hosts, and more
    than ``MOST_HOSTS`` hosts are not given to an algorithm one by one.
    """
    features, hosts = MachineFeatures(placement), placement.hosts
    wanted = set(own_parameters(row.function)) - set(dict(row.parameters))
    own: dict[str, object] = {}
    together = _is_host_by_host(placement)
    if "dims" in wanted and together:
        found = grids_of_links(row, sum(hosts), features.axes)
        found = found or grids_of_hosts(row, hosts)
        own |= {"dims": found[0]} if found and found[0] else {}
    if "hosts" in wanted and together and 1 < len(hosts) <= MOST_HOSTS:
        own["hosts"] = tuple(hosts)
    if "cycles" in wanted:
        cycles = features.cycles_along(placement.devices)
        own |= {"cycles": tuple(map(tuple, cycles))} if cycles else {}
    return row.with_parameters(own) if own else row


def unfitted(row: Algorithm, placement: Placement) -> tuple[str, ...]:
    """The parameters that differ by machine, but have a default on several hosts."""
    missing = set(own_parameters(row.function)) - set(dict(row.parameters))
    several = 1 < len(placement.hosts) < placement.size
    return tuple(sorted(missing & {"dims", "hosts"})) if several else ()


def _is_host_by_host(placement: Placement) -> bool:
    """Whether the ranks of each host follow one another."""
    if placement.cluster is not None:
        return True
    assert isinstance(placement.machine, Topology)
    devices = map(placement.machine.device, placement.devices)
    runs = groupby(device.host or device.id for device in devices)
    return len([*runs]) == len(placement.hosts)


def grids_of_links(
    row: Algorithm, size: int, axes: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """The grid of links, if an algorithm has its dimensions; empty if by default."""
    wanted = dict(row.parameters).get("axes", 2)
    if len(axes) != wanted:
        return []
    return [() if axes == square(size, wanted) else axes]


def grids_of_hosts(row: Algorithm, hosts: Sequence[int]) -> list[tuple[int, ...]]:
    """Grids of the ranks of a host and the hosts, if there are several equal hosts.

    With three dimensions the hosts form a grid that is nearly a square; so they may
    where all ranks of a dimension exchange with all, if the hosts are many.
    """
    each, count = hosts[0], len(hosts)
    if count == 1 or each == 1 or len(set(hosts)) > 1:
        return []
    plain = each, count
    outer, inner = square(count)
    cube = each, inner, outer
    if row.name == "blueconnect":
        return [(each, *primes(count))]
    if dict(row.parameters).get("axes") == 3:
        return [cube]
    if row.name == "bcube" and count > MANY and inner > 1:
        return [plain, cube]
    return [plain]


def cycles_of(
    found: Sequence[Ring], each: Sequence[str], hosts: int, nics: int
) -> list[list[int]]:
    """The cycles for several rings, as the numbers of the ranks of a host.

    On one host each NVLink carries a ring in each direction. Between hosts the cycle
    of each NIC starts at another rank, so that all NICs are ends of a ring. Rings in
    one direction are at most as many as lanes between two ranks.
    """
    number = {device: i for i, device in enumerate(each)}
    cycles = []
    for ring in found:
        there = [number[device] for device in ring.order]
        directions = [there, there[:1] + there[:0:-1]]
        cycles += [directions[i % 2] for i in range(min(ring.count, LANES))]
    if hosts == 1:
        return cycles
    first = cycles[0] if cycles else list(range(len(each)))
    starts = [i * len(each) // nics for i in range(nics)]
    return [first[start:] + first[:start] for start in starts]
