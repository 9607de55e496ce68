"""The features of a topology: orders of ranks, cycles of links, and grids."""

from collections.abc import Sequence
from functools import cached_property

from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.selection.policies.nccl import World
from collalgo.selection.variants import cycles_of
from collalgo.topology.axes import axes_of
from collalgo.topology.model import Kind, Topology
from collalgo.topology.orders import narrow_last, ring_order
from collalgo.topology.rings import Ring, bandwidth, rings as nvlink_rings

#: The number of directed rings of a host that carry data at most.
MOST_RINGS = 12

#: GB/s of a NIC and of PCIe where a topology does not state them, as in NCCL.
NIC, PCIE = 12.0, 12.0


class TopologyFeatures:
    """The properties of a topology that algorithms depend on, each computed once.

    Parameters
    ----------
    topology
        The hosts of the ranks.
    placement
        The device of each rank, in the order of their numbers.
    """

    def __init__(self, topology: Topology | UniformCluster, placement: Placement):
        self.topology = topology
        self.placement = placement

    @cached_property
    def placements(self) -> dict[str, Placement]:
        """The orders of ranks that differ: by number, along fast rings, by width."""
        placement = self.placement
        if placement.cluster is None:
            assert isinstance(self.topology, Topology)
            ours = set(placement.devices)
            along = [device for device in ring_order(self.topology) if device in ours]
            others = {
                "ring": along,
                "narrow": narrow_last(self.topology, placement.devices),
            }
        else:
            others = {"ring": [gpu for ring in self.rings[:1] for gpu in ring.order]}
        found = {"": placement}
        for name, devices in others.items():
            if devices and devices != placement.devices[: len(devices)]:
                found[name] = placement.reordered(devices)
        return found

    @cached_property
    def rings(self) -> list[Ring]:
        """The rings of NVLinks through all ranks of the first host."""
        topology, each = self.first_host
        return nvlink_rings(topology, tuple(each)) if len(each) > 1 else []

    @property
    def first_host(self) -> tuple[Topology, Sequence[str]]:
        """The topology of the first host, and the devices of its ranks."""
        if self.placement.cluster is not None:
            return self.placement.cluster.pair, self.placement.cluster.host_devices
        assert isinstance(self.topology, Topology)
        return self.topology, self.placement.devices[: self.placement.hosts[0]]

    @cached_property
    def along(self) -> str:
        """The order of ranks in which cycles are given: along the ring on equal hosts.

        Their cycles then differ only in the first rank: the schedule is symmetric.
        """
        return "ring" if self.placement.cluster and "ring" in self.placements else ""

    @cached_property
    def cycles(self) -> list[list[int]]:
        """The cycles for algorithms of several rings, on equal hosts."""
        topology, each = self.first_host
        hosts = self.placement.hosts
        if len(set(hosts)) > 1 or not each or len(each) == 1:
            return []
        nics = len(topology.devices(Kind.NIC, host=topology.hosts[0])) or 1
        order = self.placements[self.along].devices[: len(each)]
        found = cycles_of(self.rings, order, len(hosts), min(nics, len(each)))
        return found[:MOST_RINGS]

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of the grid of the links; none behind switches."""
        if self.placement.cluster is not None:
            return ()
        assert isinstance(self.topology, Topology)
        return axes_of(self.topology, self.placement.devices)

    @cached_property
    def world(self) -> World:
        """The parameters of NCCL's tuning model."""
        topology, _ = self.first_host
        hosts = len(self.placement.hosts)
        fast = bandwidth(self.rings) if self.rings else None
        inside = fast or PCIE
        nics = topology.devices(Kind.NIC, host=topology.hosts[0])
        network = sum(nic.attributes.get("speed") or NIC for nic in nics) or NIC
        gpus = topology.devices(Kind.GPU)
        return World(
            self.placement.size,
            hosts,
            inside if hosts == 1 else min(inside, network),
            2 * max(sum(ring.count for ring in self.rings), 1),
            fast is not None,
            max((gpu.attributes.get("sm", 0) for gpu in gpus), default=0),
        )
