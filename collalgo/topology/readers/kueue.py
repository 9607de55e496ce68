"""Kubernetes: Kueue's ``Topology``, and the labels of nodes."""

from collections.abc import Iterator
from typing import Any

from collalgo.base.yaml_documents import line_of
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import Cable, wire
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.text import field, mappings

#: The default labels from the widest to the narrowest, without a ``Topology``.
DEFAULT_LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "kubernetes.io/hostname",
)


def recognises(text: str) -> bool:
    """Objects of Kueue's kind Topology, or nodes."""
    return any(
        (entry.get("kind") == "Topology" and "kueue" in str(entry.get("apiVersion")))
        or (entry.get("kind") in ("Node", "NodeList", "List") and "apiVersion" in entry)
        for entry in mappings(text)
    )


def parse(text: str, topology: Topology) -> None:
    """Fill a topology: a switch for each value of each level of labels."""
    objects = list(_objects(mappings(text)))
    if unknown := sum(not each.get("kind") for each in objects):
        topology.warn(f"{unknown} objects without a kind are ignored")
    levels = next((_levels(o) for o in objects if o.get("kind") == "Topology"), None)
    nodes = [o for o in objects if o.get("kind") == "Node"]
    if not nodes:
        raise TopologyError(
            f"there are levels {' > '.join(levels or DEFAULT_LABELS)} but no nodes; "
            "append the output of kubectl get nodes -o yaml"
        )
    for node in nodes:
        metadata = field(node, "metadata", dict, "a node")
        _add_node(topology, metadata, levels or DEFAULT_LABELS)


def _objects(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        if isinstance(entry.get("items"), list):
            yield from (item for item in entry["items"] if isinstance(item, dict))
        else:
            yield entry


def _levels(entry: dict[str, Any]) -> tuple[str, ...]:
    spec = field(entry, "spec", dict, "a Topology")
    levels = field(spec, "levels", list, "a Topology")
    if not levels:
        raise TopologyError(f"{line_of(spec)}a Topology has no levels")
    return tuple(field(level, "nodeLabel", str, "a level") for level in levels)


def _add_node(
    topology: Topology, metadata: dict[str, Any], levels: tuple[str, ...]
) -> None:
    name = field(metadata, "name", str, "a node")
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        raise TopologyError(f"{line_of(metadata)}node {name}: labels must be a mapping")
    if name in topology:
        raise TopologyError(f"node {name} is defined twice")
    host = topology.add(name, Kind.HOST, name=name)
    above = _switches(topology, labels, levels)
    wanted = _above_hosts(levels)
    missing = [level for level in wanted if level not in labels]
    if not wanted:
        topology.warn("the levels have none above the hosts, which are not linked")
    elif missing and (above is None or levels != DEFAULT_LABELS):
        topology.warn(f"{name} has no label {', '.join(missing)}")
    if above is not None:
        wire(topology, host, above, Cable(None))


def _above_hosts(levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels whose labels name switches."""
    return levels[:-1] if levels[-1] == DEFAULT_LABELS[-1] else levels


def _switches(
    topology: Topology, labels: dict[str, Any], levels: tuple[str, ...]
) -> str | None:
    """Add the switches of a node that are new, and return the lowest, if any."""
    path, above = "", None
    for level in _above_hosts(levels):
        if level not in labels:
            continue
        path += f"/{labels[level]}"
        id = path[1:]
        if id not in topology:
            topology.add(id, Kind.SWITCH, name=str(labels[level]), level=level)
            if above is not None:
                wire(topology, id, above, Cable(None))
        above = id
    return above
