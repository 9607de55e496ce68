"""The features of a topology that candidates depend on: orders of ranks, and cycles."""

from functools import cached_property

from collalgo.cost.machine_parameters import MachineFeatures
from collalgo.cost.placement import Placement
from collalgo.selection.policies.nccl import World
from collalgo.topology.model import Kind, Topology
from collalgo.topology.orders import narrow_last, ring_order
from collalgo.topology.rings import bandwidth

#: GB/s of a NIC and of PCIe where a topology does not state them, as in NCCL.
NIC, PCIE = 12.0, 12.0


class TopologyFeatures(MachineFeatures):
    """The properties of a topology that candidates depend on, each computed once."""

    @cached_property
    def placements(self) -> dict[str, Placement]:
        """The orders of ranks that differ: by number, along fast rings, by width."""
        placement = self.placement
        if placement.cluster is None:
            assert isinstance(placement.machine, Topology)
            ours = set(placement.devices)
            along = [
                device for device in ring_order(placement.machine) if device in ours
            ]
            others = {
                "ring": along,
                "narrow": narrow_last(placement.machine, placement.devices),
            }
        else:
            others = {"ring": [gpu for ring in self.rings[:1] for gpu in ring.order]}
        found = {"": placement}
        for name, devices in others.items():
            if devices and devices != placement.devices[: len(devices)]:
                found[name] = placement.reordered(devices)
        return found

    @cached_property
    def along(self) -> str:
        """The order of ranks in which cycles are given: along the ring on equal hosts.

        Their cycles then differ only in the first rank: the schedule is symmetric.
        """
        return "ring" if self.placement.cluster and "ring" in self.placements else ""

    @cached_property
    def cycles(self) -> list[list[int]]:
        """The cycles for algorithms of several rings, on equal hosts."""
        return self.cycles_along(self.placements[self.along].devices)

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
