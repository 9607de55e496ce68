"""Other wirings of a machine: fewer NICs, virtual ports, pairings, hidden switches."""

import re
from collections.abc import Sequence

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, Link, LinkKind, Topology

#: The most virtual ports of a NIC.
MOST_PORTS = 64


def keep_nics(machine: Topology, count: int) -> None:
    """Keep a number of NICs of each host, chosen evenly from all."""
    for host in machine.hosts:
        nics = [nic.id for nic in machine.devices(Kind.NIC, host=host)]
        if not 0 <= count <= len(nics):
            raise TopologyError(
                f"{machine.name}: nics={count} must be from 0 to {len(nics)}"
            )
        kept = {nics[i * len(nics) // count] for i in range(count)}
        machine.remove(set(nics) - kept)


def hide_switches(machine: Topology) -> None:
    """Link the devices below PCIe switches to the CPU, as hypervisors do."""
    left = [switch.id for switch in machine.devices(Kind.PCI)]
    while left:
        # One below another is linked to the CPU once that one is hidden.
        found = next((id for id in left if _around(machine, id)[0]), None)
        if found is None:
            raise TopologyError(
                f"{machine.name}: virtual=true hides the PCIe switch {left[0]}, from "
                "which no PCIe switches lead to a CPU; add the link to its CPU"
            )
        left.remove(found)
        _hide(machine, found)


def _hide(machine: Topology, switch: str) -> None:
    """Link the devices below a PCIe switch to its CPU."""
    up, down = _around(machine, switch)
    for link in list(machine.links_of(switch)):
        if link.other(switch) in down:
            machine.link(link.other(switch), up[0], LinkKind.PCIE, link.bandwidth)
    machine.remove([switch])


def _around(machine: Topology, switch: str) -> tuple[Sequence[str], Sequence[str]]:
    others = [link.other(switch) for link in machine.links_of(switch)]
    up = [id for id in others if machine.device(id).kind in (Kind.CPU, Kind.ROOT)]
    return up, [id for id in others if id not in up]


def pair(machine: Topology, pairing: str) -> None:
    """Attach the GPUs of each host to its PCIe switches by a list of their numbers."""
    groups = _groups(machine.name, pairing)
    for host in machine.hosts:
        found = [switch.id for switch in machine.devices(Kind.PCI, host=host)]
        switches = [switch for switch in found if _gpus_below(machine, switch)]
        count = sum(len(_gpus_below(machine, switch)) for switch in switches)
        named = sorted(number for group in groups for number in group)
        if named != [*range(count)] or len(groups) != len(switches):
            raise TopologyError(
                f"{machine.name}: pairing={pairing!r} must name each of {count} GPUs "
                f"once, in {len(switches)} groups, one for each PCIe switch"
            )
        _attach(machine, switches, groups)


def _groups(name: str, pairing: str) -> list[list[int]]:
    if not re.fullmatch(r"\d{1,4}([+,]\d{1,4}){0,255}", pairing):
        raise TopologyError(
            f"{name}: pairing={pairing[:80]!r} is not a list of the GPUs of each PCIe "
            "switch; write 0+3,1+2,4+7,5+6"
        )
    return [[int(n) for n in group.split("+")] for group in pairing.split(",")]


def _gpus_below(machine: Topology, switch: str) -> list[str]:
    others = (link.other(switch) for link in machine.links_of(switch))
    return [id for id in others if machine.device(id).kind is Kind.GPU]


def _attach(
    machine: Topology, switches: Sequence[str], groups: Sequence[Sequence[int]]
) -> None:
    """Move the links between GPUs and switches; GPUs count in the order of ids."""
    host = machine.device(switches[0]).host
    bandwidth = {}
    for switch in switches:
        for link in list(machine.links_of(switch)):
            if machine.device(link.other(switch)).kind is Kind.GPU:
                bandwidth[link.other(switch)] = link.bandwidth
                machine.unlink(link)
    gpus = [gpu.id for gpu in machine.devices(Kind.GPU, host=host)]
    gpus = [id for id in gpus if id in bandwidth]
    for switch, group in zip(switches, groups, strict=True):
        for number in group:
            id = gpus[number]
            machine.link(id, switch, LinkKind.PCIE, bandwidth[id])


def split_nics(machine: Topology, ports: int) -> None:
    """Replace each NIC by its card with several virtual ports, which share its slot."""
    if not 1 <= ports <= MOST_PORTS:
        raise TopologyError(
            f"{machine.name}: ports={ports} must be from 1 to {MOST_PORTS}"
        )
    for nic in machine.devices(Kind.NIC) if ports > 1 else ():
        slot = _slot(machine, nic.id, ports)
        machine.remove([nic.id])
        card = machine.add(f"{nic.id}/card", Kind.CARD, host=nic.host)
        machine.link(card, slot.other(nic.id), slot.kind, slot.bandwidth)
        speed = nic.attributes.get("speed")
        each = {**nic.attributes, "speed": speed and speed / ports}
        for number in range(ports):
            port = machine.add(
                f"{nic.id}/port{number}", Kind.NIC, host=nic.host, **each
            )
            machine.link(port, card, LinkKind.PCIE, slot.bandwidth)


def _slot(machine: Topology, nic: str, ports: int) -> Link:
    """The only link of a NIC."""
    links = list(machine.links_of(nic))
    if len(links) != 1:
        raise TopologyError(
            f"{machine.name}: ports={ports} splits NICs with one link, but {nic} has "
            f"{len(links)}; pass the topology of one host, and hosts="
        )
    return links[0]
