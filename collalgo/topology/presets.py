"""Named machines and fabrics; several machines are joined by a CLOS."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import fabrics
from collalgo.topology.document import build
from collalgo.topology.fabrics import Cable
from collalgo.topology.model import Kind, LinkKind, Topology

#: The fabrics, with the defaults of their parameters besides bandwidth and latency.
FABRICS: dict[str, tuple[Callable[..., Topology], dict[str, Any]]] = {
    "torus": (fabrics.torus, {"dims": (4, 4)}),
    "mesh": (fabrics.mesh, {"dims": (4, 4)}),
    "tpu": (fabrics.tpu, {"dims": (4, 4, 4)}),
    "hypercube": (fabrics.hypercube, {"dimensions": 3}),
    "fully_connected": (fabrics.fully_connected, {"hosts": 8}),
    "fat_tree": (fabrics.fat_tree, {"k": 4, "oversubscription": 1.0}),
    "dragonfly": (fabrics.dragonfly, {"groups": 5, "routers": 4, "hosts": 2}),
}

#: The parameters of every machine, besides the speeds in its file.
JOINING = ("hosts", "nics", "rail", "hosts_per_leaf", "oversubscription", "virtual")


def names() -> list[str]:
    """The names that :func:`load` accepts."""
    return [*machines(), *FABRICS]


@cache
def machines() -> dict[str, str]:
    """The names of the machines, each with its description."""
    files = resources.files("collalgo.topologies").iterdir()
    stems = sorted(
        f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")
    )
    return {stem: str(_document(stem)["about"]) for stem in stems}


@cache
def _document(name: str) -> dict[str, Any]:
    import yaml

    file = resources.files("collalgo.topologies") / f"{name}.yaml"
    document: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return document


def load(name: str, **parameters: Any) -> Topology:
    """Build a named machine or fabric.

    Parameters
    ----------
    name
        One of :func:`names`.
    **parameters
        For a machine: the speeds that its file lists, in GB/s in each direction, and

        - ``hosts``: the number of machines, joined by a two-level CLOS;
        - ``nics``: the number of NICs of each host, chosen evenly from all;
        - ``rail``: whether the CLOS is rail-optimised;
        - ``hosts_per_leaf``, ``oversubscription``: see ``fabrics.leaf_spine``;
        - ``virtual``: whether PCIe switches are hidden, as in many virtual machines.

        For a fabric: those of its function, ``bandwidth`` and ``latency``.

    Raises
    ------
    TopologyError
        If a name or a parameter is unknown; the message lists the known ones.
    """
    if name in FABRICS:
        return _fabric(name, parameters)
    if name not in machines():
        raise TopologyError(
            f"there is no topology {name!r}; choose one of {', '.join(names())}"
        )
    joining = {key: parameters.pop(key) for key in JOINING if key in parameters}
    values = _document(name).get("parameters", {})
    unknown = sorted(set(parameters) - set(values))
    if unknown:
        raise TopologyError(
            f"{name} has no parameter {unknown[0]!r}; it has "
            f"{', '.join([*values, *JOINING])}"
        )
    machine = build(_document(name), {k: float(v) for k, v in parameters.items()})
    speed = float(parameters.get("nic", values.get("nic", 12.5)))
    for nic in machine.devices(Kind.NIC):
        nic.attributes["speed"] = speed
    return _cluster(machine, speed, **joining)


def _fabric(name: str, parameters: dict[str, Any]) -> Topology:
    function, defaults = FABRICS[name]
    known = {**defaults, "bandwidth": 12.5, "latency": None}
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise TopologyError(
            f"{name} has no parameter {unknown[0]!r}; it has {', '.join(known)}"
        )
    values = known | parameters
    cable = Cable(values.pop("bandwidth"), values.pop("latency"))
    return function(**values, cable=cable)


def _cluster(
    machine: Topology,
    speed: float,
    hosts: int = 1,
    nics: int | None = None,
    rail: bool = False,
    virtual: bool = False,
    **clos: Any,
) -> Topology:
    """Several copies of a machine, joined by a CLOS."""
    if hosts < 1:
        raise TopologyError(f"{machine.name}: hosts={hosts!r} must be at least 1")
    if nics is not None:
        _keep_nics(machine, nics)
    if virtual:
        _hide_switches(machine)
    if hosts == 1:
        return machine
    cluster = Topology(f"{hosts} x {machine.name}", machine.source)
    each = machine.hosts
    for i in range(hosts):
        new = {old: f"host{i * len(each) + k}" for k, old in enumerate(each)}
        fabric = [d.id for d in machine.devices() if not d.host]
        cluster.include(machine, new | {id: f"rack{i}/{id}" for id in fabric})
    ports = [[n.id for n in cluster.devices(Kind.NIC, host=h)] for h in cluster.hosts]
    fabrics.leaf_spine(cluster, ports, Cable(speed), rail=rail, **clos)
    return cluster


def _keep_nics(machine: Topology, count: int) -> None:
    """Keep a number of NICs of each host, chosen evenly from all."""
    for host in machine.hosts:
        nics = [nic.id for nic in machine.devices(Kind.NIC, host=host)]
        if not 0 <= count <= len(nics):
            raise TopologyError(
                f"{machine.name}: nics={count} must be from 0 to {len(nics)}"
            )
        kept = {nics[i * len(nics) // count] for i in range(count)}
        machine.graph.remove_nodes_from(set(nics) - kept)


def _hide_switches(machine: Topology) -> None:
    """Link the devices below PCIe switches to the CPU, as hypervisors do."""
    for switch in machine.devices(Kind.PCI):
        up, down = _around(machine, switch.id)
        for other in down:
            for link in list(machine.links_of(switch.id)):
                if link.other(switch.id) == other:
                    machine.link(other, up[0], LinkKind.PCIE, link.bandwidth)
        machine.graph.remove_node(switch.id)


def _around(machine: Topology, switch: str) -> tuple[Sequence[str], Sequence[str]]:
    others = [link.other(switch) for link in machine.links_of(switch)]
    up = [id for id in others if machine.device(id).kind in (Kind.CPU, Kind.ROOT)]
    return up, [id for id in others if id not in up]
