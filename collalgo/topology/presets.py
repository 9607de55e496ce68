"""Named machines and fabrics; several machines are joined by a CLOS."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology import fabrics
from collalgo.topology.document import build
from collalgo.topology.domains import devices_by_host
from collalgo.topology.fabrics import Cable
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.places import place

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

#: The parameters of every machine, besides the speeds in its file, with their types.
JOINING: dict[str, type] = {
    "hosts": int,
    "nics": int,
    "rail": bool,
    "hosts_per_leaf": int,
    "oversubscription": float,
    "virtual": bool,
    "ranks": str,
}


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
        - ``virtual``: whether PCIe switches are hidden, as in many virtual machines;
        - ``ranks``: for a machine without GPUs ``cores`` or ``sockets``.

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
    return several(machine, **joining)


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


def several(machine: Topology, **parameters: Any) -> Topology:
    """A machine with other NICs or ranks, or several copies of it joined by a CLOS.

    Parameters
    ----------
    machine
        A machine by name, from a file or detected; it is changed.
    **parameters
        Those of every machine, as for :func:`load`.

    Raises
    ------
    TopologyError
        If a parameter is unknown or out of range, or the machine cannot be joined.
    """
    unknown = sorted(set(parameters) - set(JOINING))
    if unknown:
        raise TopologyError(
            f"{machine.name} has no parameter {unknown[0]!r}; it has "
            f"{', '.join(JOINING)}"
        )
    for name, value in parameters.items():
        _check_type(machine.name, name, value)
    return _cluster(machine, **parameters)


def _check_type(machine: str, name: str, value: object) -> None:
    """Refuse half a host, or a number where a word is wanted."""
    wanted = JOINING[name]
    given = float if wanted is float and type(value) is int else type(value)
    if value is not None and given is not wanted:
        kinds = {int: "an integer", float: "a number", bool: "true or false"}
        kind = kinds.get(wanted, "a word")
        raise TopologyError(f"{machine}: {name}={value!r} must be {kind}")


def _cluster(
    machine: Topology,
    hosts: int = 1,
    nics: int | None = None,
    rail: bool = False,
    virtual: bool = False,
    ranks: str | None = None,
    **clos: Any,
) -> Topology:
    if hosts < 1:
        raise TopologyError(f"{machine.name}: hosts={hosts!r} must be at least 1")
    if nics is not None:
        _keep_nics(machine, nics)
    if virtual:
        _hide_switches(machine)
    if ranks is not None:
        place(machine, ranks)
    return machine if hosts == 1 else _joined(machine, hosts, rail, **clos)


def _joined(machine: Topology, hosts: int, rail: bool, **clos: Any) -> Topology:
    """Several copies of a machine, joined by a CLOS."""
    _check_can_be_joined(machine, hosts)
    cluster = Topology(f"{hosts} x {machine.name}", machine.source)
    each = machine.hosts
    for i in range(hosts):
        new = {old: f"host{i * len(each) + k}" for k, old in enumerate(each)}
        fabric = [d.id for d in machine.devices() if not d.host]
        cluster.include(machine, new | {id: f"rack{i}/{id}" for id in fabric})
    nics_of = devices_by_host(cluster, Kind.NIC)
    ports = [[nic.id for nic in nics_of[host]] for host in cluster.hosts]
    fabrics.leaf_spine(cluster, ports, rail=rail, **clos)
    return cluster


def _check_can_be_joined(machine: Topology, hosts: int) -> None:
    """Refuse a machine without NICs, and one that has a network already."""
    networks = [link for link in machine.links if link.kind is LinkKind.NETWORK]
    if networks or machine.devices(Kind.SWITCH, Kind.HOST):
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins copies of a machine by a network, "
            f"but {machine.source or machine.name} has {len(machine.hosts)} hosts and "
            "a network already; leave hosts= out, or give one host"
        )
    if not machine.hosts:
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins copies of a machine, but "
            f"{machine.source or machine.name} names no host of its devices"
        )
    without = [h for h in machine.hosts if not machine.devices(Kind.NIC, host=h)]
    if without:
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins hosts by their NICs, but "
            f"{without[0]} has none"
        )


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
