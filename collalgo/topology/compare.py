"""Compare two topologies: isomorphism and differences."""

from typing import Any

from collalgo.topology.model import Kind, Link, Topology


def isomorphic(
    a: Topology, b: Topology, *kinds: Kind | str, bandwidth: bool = True
) -> bool:
    """Whether two topologies are equal up to the names and the order of devices.

    Parameters
    ----------
    a, b
        The topologies.
    *kinds
        Compare only devices of these kinds and the links between them.
    bandwidth
        Whether to compare bandwidths, besides kinds and numbers of cables.
    """
    import networkx as nx

    first, second = (_part(topology, kinds) for topology in (a, b))

    def same_link(x: dict[str, Any], y: dict[str, Any]) -> bool:
        return {_nature(e["link"], bandwidth) for e in x.values()} == {
            _nature(e["link"], bandwidth) for e in y.values()
        }

    return bool(
        nx.is_isomorphic(
            first,
            second,
            node_match=lambda x, y: x["device"].kind == y["device"].kind,
            edge_match=same_link,
        )
    )


def _part(topology: Topology, kinds: tuple[Kind | str, ...]) -> Any:
    return topology.graph.subgraph(device.id for device in topology.devices(*kinds))


def _nature(link: Link, bandwidth: bool) -> tuple[Any, ...]:
    speed = (
        round(link.bandwidth, 3) if bandwidth and link.bandwidth is not None else None
    )
    return link.kind, link.count, speed


def differences(a: Topology, b: Topology) -> list[str]:
    """List the differences between two topologies, a line per device or link."""
    found = []
    ours, theirs = ({d.id: d for d in t.devices()} for t in (a, b))
    for id in ours | theirs:
        if id not in theirs:
            found.append(f"- {ours[id].kind.value} {id}")
        elif id not in ours:
            found.append(f"+ {theirs[id].kind.value} {id}")
        elif (old := _described(ours[id])) != (new := _described(theirs[id])):
            found.append(f"~ {id}: {old} -> {new}")
    return found + _link_differences(a, b)


def _link_differences(a: Topology, b: Topology) -> list[str]:
    found = []
    before, after = ({_key(link): link for link in t.links} for t in (a, b))
    for key in before | after:
        old, new = (_speed(links.get(key)) for links in (before, after))
        name = " - ".join(key[0]) + f" ({key[1]})"
        if old != new:
            found.append(
                f"- {name}: {old}"
                if not new
                else f"+ {name}: {new}"
                if not old
                else f"~ {name}: {old} -> {new}"
            )
    return found


def _described(device: Any) -> str:
    rest = {key: device.attributes[key] for key in sorted(device.attributes)}
    words = [device.kind.value, device.name, device.host, str(rest or "")]
    return " ".join(word for word in words if word)


def _key(link: Link) -> tuple[tuple[str, ...], str]:
    return tuple(sorted(link.ends)), link.kind.value


def _speed(link: Link | None) -> str:
    if link is None:
        return ""
    speed = "? GB/s" if link.bandwidth is None else f"{link.bandwidth:g} GB/s"
    return f"{link.count} x, {speed}"
