"""Named machines and fabrics; several machines are joined by a CLOS."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from collalgo.base import plugins
from collalgo.base.arguments import shown
from collalgo.errors import TopologyError
from collalgo.topology import fabrics, rewiring
from collalgo.topology.document import build
from collalgo.topology.domains import devices_by_host
from collalgo.topology.elements import LEAST_SPEED, MOST_LATENCY, MOST_SPEED
from collalgo.topology.fabrics import Cable
from collalgo.topology.graph import LARGEST
from collalgo.topology.leaf_spine import leaf_spine
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.places import place
from collalgo.topology.tiles import tiled_torus
from collalgo.topology.values import check_integers, number

#: The fabrics, with the defaults of their parameters besides bandwidth and latency.
FABRICS: dict[str, tuple[Callable[..., Topology], dict[str, Any]]] = {
    "torus": (fabrics.torus, {"dims": (4, 4)}),
    "mesh": (fabrics.mesh, {"dims": (4, 4)}),
    "tiled_torus": (tiled_torus, {"dims": (8, 4), "tile": (4, 2), "nvlink": 25.0}),
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
    "pairing": str,
    "ports": int,
}


def names() -> list[str]:
    """The names that :func:`load` accepts, those of plug-ins last."""
    return [*machine_names(), *FABRICS, *plugins.names(plugins.TOPOLOGIES)]


@cache
def machine_names() -> tuple[str, ...]:
    """The names of the machines; no file is read."""
    files = resources.files("collalgo.topologies").iterdir()
    return tuple(
        sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))
    )


def machines() -> dict[str, str]:
    """The names of the machines, each with its description."""
    return {name: str(_document(name)["about"]) for name in machine_names()}


@cache
def _document(name: str) -> dict[str, Any]:
    import yaml

    file = resources.files("collalgo.topologies") / f"{name}.yaml"
    text = file.read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    document: dict[str, Any] = yaml.load(text, Loader=loader)
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
        - ``hosts_per_leaf``, ``oversubscription``: see ``leaf_spine.leaf_spine``;
        - ``virtual``: whether PCIe switches are hidden, as in many virtual machines;
        - ``ranks``: for a machine without GPUs ``cores`` or ``sockets``;
        - ``pairing``: the GPUs below each PCIe switch, by number, in the order of the
          switches: ``"0+3,1+2,4+7,5+6"``;
        - ``ports``: the number of virtual ports of each NIC, which share its speed and
          its slot.

        For a fabric: those of its function, ``bandwidth`` and ``latency``. For a
        topology of another package: those of its function.

    Raises
    ------
    TopologyError
        If a name or a parameter is unknown; the message lists the known ones.
    PluginError
        If the package that adds the topology cannot be imported.
    """
    if name in FABRICS:
        return _fabric(name, parameters)
    if name not in machine_names():
        return _added(name, parameters)
    joining = {key: parameters.pop(key) for key in JOINING if key in parameters}
    values = _document(name).get("parameters", {})
    unknown = sorted(set(parameters) - set(values))
    if unknown:
        raise TopologyError(
            f"{name} has no parameter {unknown[0]!r}; it has "
            f"{', '.join([*values, *JOINING])}"
        )
    speeds = {key: _speed(name, key, value) for key, value in parameters.items()}
    machine = build(_document(name), speeds)
    speed = float(speeds.get("nic", values.get("nic", 12.5)))
    for nic in machine.devices(Kind.NIC):
        nic.attributes["speed"] = speed
    return several(machine, **joining)


def _added(name: str, parameters: dict[str, Any]) -> Topology:
    """A topology of another package."""
    function = plugins.find(plugins.TOPOLOGIES, name)
    if function is None:
        raise TopologyError(
            f"there is no topology {name!r}; read a file by Topology.read, or choose "
            f"one of {', '.join(names())}"
        )
    topology = function(**parameters)
    if not isinstance(topology, Topology):
        raise TopologyError(
            f"{name}: {function.__module__}.{function.__qualname__} returned "
            f"{type(topology).__name__}; return a collalgo.Topology"
        )
    return topology


def _fabric(name: str, parameters: dict[str, Any]) -> Topology:
    function, defaults = FABRICS[name]
    known = {**defaults, "bandwidth": 12.5, "latency": None}
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise TopologyError(
            f"{name} has no parameter {unknown[0]!r}; it has {', '.join(known)}"
        )
    for key, value in parameters.items():
        if key in defaults:
            _check_like(name, key, value, defaults[key])
    values = known | parameters
    latency = values.pop("latency")
    if latency is not None:
        latency = number(latency, f"{name}: latency in seconds", 0.0, MOST_LATENCY)
    if "nvlink" in values:
        values["nvlink"] = _speed(name, "nvlink", values["nvlink"])
    cable = Cable(_speed(name, "bandwidth", values.pop("bandwidth")), latency)
    return function(**values, cable=cable)


def _speed(machine: str, name: str, value: object) -> float:
    """A speed in GB/s that a link can have."""
    return number(value, f"{machine}: {name} in GB/s", LEAST_SPEED, MOST_SPEED)


def _check_like(fabric: str, name: str, value: object, default: object) -> None:
    """Refuse a value of another type than the default."""
    if isinstance(default, tuple):
        is_right = isinstance(value, Sequence) and all(type(n) is int for n in value)
        kind = "integers, as 4x4"
    else:
        is_right = type(value) is int or (isinstance(default, type(value)))
        kind = "a number" if isinstance(default, float) else "an integer"
    if not is_right:
        raise TopologyError(f"{fabric}: {name}={shown(value)} must be {kind}")
    check_integers(f"{fabric}: {name}", value)


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
        raise TopologyError(f"{machine}: {name}={shown(value)} must be {kind}")
    check_integers(f"{machine}: {name}", value)


def _cluster(
    machine: Topology,
    hosts: int = 1,
    nics: int | None = None,
    rail: bool = False,
    virtual: bool = False,
    ranks: str | None = None,
    pairing: str | None = None,
    ports: int = 1,
    **clos: Any,
) -> Topology:
    if hosts < 1:
        raise TopologyError(f"{machine.name}: hosts={hosts!r} must be at least 1")
    if pairing is not None:
        rewiring.pair(machine, pairing)
    if nics is not None:
        rewiring.keep_nics(machine, nics)
    rewiring.split_nics(machine, ports)
    if virtual:
        rewiring.hide_switches(machine)
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
    leaf_spine(cluster, ports, rail=rail, **clos)
    return cluster


def _check_can_be_joined(machine: Topology, hosts: int) -> None:
    """Refuse a machine without NICs, one with a network already, and too many."""
    if hosts * len(machine.devices()) > LARGEST:
        raise TopologyError(
            f"{machine.name}: hosts={hosts} of {len(machine.devices())} devices each "
            f"are too many; at most {LARGEST} devices can be built"
        )
    networks = [link for link in machine.links if link.kind is LinkKind.NETWORK]
    if networks or machine.devices(Kind.SWITCH, Kind.HOST):
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins copies of a machine by a network, "
            f"but {machine.source or machine.name} has {len(machine.hosts)} hosts and "
            "a network already; leave hosts= out, or give one host"
        )
    _check_nics(machine, hosts)


def _check_nics(machine: Topology, hosts: int) -> None:
    """Refuse a machine without a host, or with a host without a NIC."""
    if not machine.hosts:
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins copies of a machine, but "
            f"{machine.source or machine.name} names no host of its devices"
        )
    without = [h for h in machine.hosts if not machine.devices(Kind.NIC, host=h)]
    if without:
        raise TopologyError(
            f"{machine.name}: hosts={hosts} joins hosts by their NICs, but "
            f"{without[0]} has none; write the machine by topo convert, add its NICs "
            "to that file, and give hosts= to it"
        )
