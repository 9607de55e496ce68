"""Platforms of SimGrid: clusters of several shapes, and the routes between them."""

import math
from itertools import combinations, product
from typing import Any

from collalgo.base.hostlist import LONGEST_NAME, expand
from collalgo.base.units import counted
from collalgo.errors import TopologyError
from collalgo.topology.fabrics import MOST_AXES, Cable, grid, star, wire
from collalgo.topology.graph import MOST_LINKS
from collalgo.topology.model import Kind, Topology
from collalgo.topology.readers.simgrid_cables import cable_of, limited
from collalgo.topology.readers.simgrid_routes import Network, Route, both_ways
from collalgo.topology.readers.text import root_tag, xml
from collalgo.topology.readers.unknown_words import warn_of_attributes, warn_of_unknown
from collalgo.topology.values import integer

#: The directions of a link in a route, and the words of an attribute that is false.
DIRECTIONS = {"UP", "DOWN", "NONE"}
NEGATIONS = {"NO", "FALSE", "0"}

#: The known elements, and the attributes of those that are read.
ELEMENTS = {"platform", "config", "prop", "zone", "AS", "cluster", "host", "router",
            "link", "route", "zoneRoute", "link_ctn", "disk", "storage", "storage_type",
            "mstorage", "mount", "content", "model_prop", "trace",
            "trace_connect"}  # fmt: skip
ATTRIBUTES = {
    "cluster": {"id", "prefix", "suffix", "radical", "speed", "core", "bw", "lat",
                "sharing_policy", "topology", "topo_parameters", "bb_bw", "bb_lat",
                "bb_sharing_policy", "router_id", "loopback_bw", "loopback_lat",
                "limiter_link", "availability_file", "state_file"},
    "link": {"id", "bandwidth", "latency", "sharing_policy", "bandwidth_file",
             "latency_file", "state_file"},
    "route": {"src", "dst", "symmetrical"},
    "zoneRoute": {"src", "dst", "gw_src", "gw_dst", "symmetrical"},
    "link_ctn": {"id", "direction"},
}  # fmt: skip

#: The elements whose hosts, links or routes are not read, of any version.
UNREAD = (
    *("include", "cabinet", "peer", "host_link"),
    *("bypassRoute", "bypassZoneRoute", "bypassASroute"),
)


def recognises(text: str) -> bool:
    """Whether the outermost element is ``platform``."""
    return root_tag(text) == "platform"


def parse(text: str, topology: Topology) -> None:
    """Fill a topology from the clusters, hosts, routers and routes of all zones."""
    root = xml(text)
    for element in (e for tag in UNREAD for e in root.iter(tag)):
        raise TopologyError(
            f"the element {element.tag} is not read; put its hosts, links and routes "
            "in its place"
        )
    tags = [element.tag for element in root.iter()]
    warn_of_unknown(topology, "the platform has the element", tags, ELEMENTS)
    warn_of_attributes(topology, root, ATTRIBUTES)
    ends: dict[str, str] = {}
    for element in root.iter("cluster"):
        _once(ends, element, _cluster(topology, element))
    for tag, kind in (("host", Kind.HOST), ("router", Kind.SWITCH)):
        for element in root.iter(tag):
            id = element.get("id", "")
            _once(ends, element, topology.add(id, kind, name=id))
    _add_routes(root, topology, ends)


def _add_routes(root: Any, topology: Topology, ends: dict[str, str]) -> None:
    """Add the links of all routes between the ends."""
    cables = {element.get("id", ""): cable_of(element, "bandwidth", "latency")
              for element in root.iter("link")}  # fmt: skip
    not_shared = {element.get("id", "") for element in root.iter("link")
                  if element.get("sharing_policy") == "FATPIPE"}  # fmt: skip
    elements = (*root.iter("zoneRoute"), *root.iter("route"))
    found = [route for e in elements if (route := _route(topology, e, ends, cables))]
    network = Network(topology, cables)
    network.add(both_ways(topology, found, cables), not_shared)
    if several := sorted(network.media - not_shared):
        topology.warn(
            f"{_some(several)}, shared by routes in several directions; here each of "
            "these routes has the whole bandwidth, so messages on several of them at "
            "once are priced too low"
        )
    if wide := sorted(link for link, routes in network.times.items() if routes > 1):
        topology.warn(
            f"the whole bandwidth for each route (FATPIPE): {_some(wide)}; here their "
            "routes share the sum, so one alone is too fast"
        )


def _some(links: list[str]) -> str:
    """The number of links, and one of them."""
    return f"{counted(len(links), 'link')}, as {links[0]}"


def _once(ends: dict[str, str], element: Any, device: str) -> None:
    id = element.get("id", "")
    if id in ends:
        raise TopologyError(f"{element.tag} {id[:40]!r} is defined twice")
    ends[id] = device


def _cluster(topology: Topology, element: Any) -> str:
    """Add a cluster, and return the device that joins it to others."""
    id = element.get("id", "")
    names = _names(element, id)
    nodes = [topology.add(name, Kind.HOST, name=name) for name in names]
    shape = element.get("topology", "FLAT")
    cable = limited(topology, element, len(nodes))
    sizes = element.get("topo_parameters", "")
    if shape == "FLAT":
        return star(topology, nodes, id, cable)
    if shape == "TORUS":
        grid(topology, nodes, _numbers(sizes, ",", id), cable)
    elif shape == "FAT_TREE":
        _fat_tree(topology, nodes, sizes, id, cable)
    elif shape == "DRAGONFLY":
        _dragonfly(topology, nodes, sizes, id, cable)
    else:
        raise TopologyError(f"cluster {id}: unknown shape {shape!r}")
    return nodes[0]


def _names(element: Any, id: str) -> list[str]:
    """The names of the hosts of a cluster."""
    before, after = element.get("prefix", ""), element.get("suffix", "")
    if len(before) + len(after) > LONGEST_NAME:
        raise TopologyError(
            f"cluster {id[:40]}: prefix and suffix of {len(before) + len(after)} "
            f"characters are longer than {LONGEST_NAME}"
        )
    return [f"{before}{n}{after}" for n in expand(f"[{element.get('radical', '')}]")]


def _numbers(text: str, separator: str, id: str) -> list[int]:
    words = text.split(separator)
    if len(words) > MOST_AXES:
        raise TopologyError(f"cluster {id}: {len(words)} sizes; at most {MOST_AXES}")
    return [
        integer(word, f"cluster {id} topo_parameters", 1, 100_000) for word in words
    ]


def _fat_tree(
    topology: Topology, nodes: list[str], sizes: str, id: str, cable: Cable
) -> None:
    """Add a fat tree: for each level the children, parents and cables of a switch."""
    parts = sizes.split(";")
    if len(parts) != 4:
        raise TopologyError(f"cluster {id}: {sizes!r} must have four parts")
    down, up, cables = (_numbers(part, ",", id) for part in parts[1:])
    if {len(down), len(up), len(cables)} != {integer(parts[0], f"cluster {id} levels")}:
        raise TopologyError(
            f"cluster {id}: {sizes!r} must have a number for each level"
        )
    if math.prod(down) != len(nodes):
        raise TopologyError(
            f"cluster {id}: {sizes!r} is for {math.prod(down)} nodes, not {len(nodes)}"
        )
    _check_tree(len(nodes), down, up, id)
    # A switch is identified by the subtree below it and by its number there.
    lower = [[node] for node in nodes]
    for level, (width, above, count) in enumerate(zip(down, up, cables, strict=True)):
        groups = [lower[i : i + width] for i in range(0, len(lower), width)]
        lower = [
            _subtree(topology, group, above, f"{id}-l{level}-{g}", cable, count)
            for g, group in enumerate(groups)
        ]


def _check_tree(nodes: int, down: list[int], up: list[int], id: str) -> None:
    """Refuse a fat tree of too many links."""
    links, tops = 0, nodes
    for width, above in zip(down, up, strict=True):
        links, tops = links + tops * above, tops // width * above
    _check_links(links, id)


def _check_links(links: int, id: str) -> None:
    if links > MOST_LINKS:
        raise TopologyError(f"cluster {id}: {links} links are more than {MOST_LINKS}")


def _subtree(
    topology: Topology,
    group: list[list[str]],
    above: int,
    name: str,
    cable: Cable,
    count: int,
) -> list[str]:
    """Add the switches above some subtrees, ``above`` for each of their tops."""
    names = [f"{name}-{k}" for k in range(above * len(group[0]))]
    switches = [topology.add(switch, Kind.SWITCH) for switch in names]
    for members in group:
        for k, member in enumerate(members):
            for switch in switches[k * above : (k + 1) * above]:
                wire(topology, member, switch, cable, count)
    return switches


def _dragonfly(
    topology: Topology, nodes: list[str], sizes: str, id: str, cable: Cable
) -> None:
    """Add groups of chassis of routers, joined within a chassis and within a row."""
    pairs = [_numbers(part, ",", id) for part in sizes.split(";")]
    if [len(pair) for pair in pairs] != [2, 2, 2, 1]:
        raise TopologyError(f"cluster {id}: {sizes!r} are not the sizes of a dragonfly")
    (groups, blue), (chassis, black), (routers, green), (each,) = pairs
    if groups * chassis * routers * each != len(nodes):
        raise TopologyError(f"cluster {id}: {sizes!r} is not for {len(nodes)} nodes")
    each_router = (chassis + routers) * chassis * routers
    _check_links(groups * (groups + each_router) // 2, id)
    router_at = {}
    for i, (g, c, r) in enumerate(product(*map(range, (groups, chassis, routers)))):
        mine = nodes[i * each : (i + 1) * each]
        router_at[g, c, r] = star(topology, mine, f"{id}-router{i}", cable)
    for (g, c, r), router in router_at.items():
        for k in range(r):
            wire(topology, router, router_at[g, c, k], cable, green)
        for k in range(c):
            wire(topology, router, router_at[g, k, r], cable, black)
    for a, b in combinations(range(groups), 2):
        ends = (router_at[b, 0, a % routers], router_at[a, 0, (b - 1) % routers])
        wire(topology, *ends, cable, blue)


def _route(
    topology: Topology, element: Any, ends: dict[str, str], cables: dict[str, Cable]
) -> Route | None:
    """A route, unless it stays in a host or does not join known devices."""
    src, dst = (_end(element, which, ends) for which in ("src", "dst"))
    if src not in ends or dst not in ends:
        topology.warn(f"the route from {src} to {dst} does not join hosts or clusters")
        return None
    if src == dst:
        topology.warn("routes from a host to itself are ignored")
        return None
    links = _links(element, f"the route from {src} to {dst}", cables)
    one_way = element.get("symmetrical", "YES").upper() in NEGATIONS
    return Route(ends[src], ends[dst], links, one_way)


def _links(element: Any, route: str, cables: dict[str, Cable]) -> tuple[str, ...]:
    """The names of the links of a route."""
    parts = [*element.iter("link_ctn")]
    for wrong in {part.get("direction", "NONE") for part in parts} - DIRECTIONS:
        raise TopologyError(
            f"{route}: direction {wrong[:40]!r} is not one of "
            f"{', '.join(sorted(DIRECTIONS))}"
        )
    links = tuple(part.get("id", "") for part in parts)
    if unknown := [name for name in links if name not in cables]:
        raise TopologyError(f"{route}: there is no link {unknown[0][:40]!r}")
    return links


def _end(element: Any, which: str, ends: dict[str, str]) -> str:
    """An end of a route; of a route between zones, the gateway."""
    gateway: str = element.get(f"gw_{which}", "")
    found: str = element.get(which, "")
    return gateway if gateway in ends and found not in ends else found
