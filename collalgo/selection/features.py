"""What a topology offers to algorithms: orders of the ranks, cycles and grids."""

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

#: With more directed rings than this on a host, only so many carry data.
MOST_RINGS = 12

#: GB/s of a NIC or of PCIe where a topology does not tell, as NCCL takes them.
NIC, PCIE = 12.0, 12.0


class TopologyFeatures:
    """What there is on a machine, found out when somebody asks.

    Parameters
    ----------
    machine
        Where the ranks are to be.
    placement
        The ranks by their numbers.
    """

    def __init__(self, machine: Topology | UniformCluster, placement: Placement):
        self.machine = machine
        self.placement = placement

    @cached_property
    def sites(self) -> dict[str, Placement]:
        """The orders of ranks that differ: by number, along fast rings, by width."""
        placement = self.placement
        if placement.cluster is None:
            assert isinstance(self.machine, Topology)
            ours = set(placement.places)
            along = [place for place in ring_order(self.machine) if place in ours]
            others = {
                "ring": along,
                "narrow": narrow_last(self.machine, placement.places),
            }
        else:
            others = {"ring": [gpu for ring in self.rings[:1] for gpu in ring.order]}
        found = {"": placement}
        for name, places in others.items():
            if places and places != placement.places[: len(places)]:
                found[name] = placement.reordered(places)
        return found

    @cached_property
    def rings(self) -> list[Ring]:
        """The rings of NVLinks through all ranks of the first host."""
        topology, each = self.first_host
        return nvlink_rings(topology, tuple(each)) if len(each) > 1 else []

    @property
    def first_host(self) -> tuple[Topology, Sequence[str]]:
        """It and its ranks; of a cluster, two hosts of which it is the first."""
        if self.placement.cluster is not None:
            return self.placement.cluster.pair, self.placement.cluster.each
        assert isinstance(self.machine, Topology)
        return self.machine, self.placement.places[: self.placement.hosts[0]]

    @cached_property
    def along(self) -> str:
        """The order in which cycles are given: of hosts that are alike that of a ring.

        There they differ in where they begin only, which makes a schedule symmetric.
        """
        return "ring" if self.placement.cluster and "ring" in self.sites else ""

    @cached_property
    def cycles(self) -> list[list[int]]:
        """The cycles for algorithms of several rings, where hosts are alike."""
        topology, each = self.first_host
        hosts = self.placement.hosts
        if len(set(hosts)) > 1 or not each or len(each) == 1:
            return []
        nics = len(topology.devices(Kind.NIC, host=topology.hosts[0])) or 1
        order = self.sites[self.along].places[: len(each)]
        found = cycles_of(self.rings, order, len(hosts), min(nics, len(each)))
        return found[:MOST_RINGS]

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of the grid that links make; none behind switches."""
        if self.placement.cluster is not None:
            return ()
        assert isinstance(self.machine, Topology)
        return axes_of(self.machine, self.placement.places)

    @cached_property
    def world(self) -> World:
        """What the model of NCCL asks of the machine."""
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
