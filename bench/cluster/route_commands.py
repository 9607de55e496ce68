"""The commands of ``ip -batch`` that add the routes of a host."""

from collections.abc import Iterator, Mapping
from itertools import chain, permutations

from collalgo.bench.cluster.layout import NODE, Hop, Layout


def routes(layout: Layout, host: str) -> list[str]:
    """The commands that add all routes from a host."""
    return [
        *_neighbours(layout, host),
        *routes_from(layout, host, layout.routes, "add"),
        *_unused_routes(layout, host),
    ]


def routes_from(
    layout: Layout, host: str, routes: Mapping[tuple[str, str], list[Hop]], verb: str
) -> Iterator[str]:
    """The commands that add or replace routes from a host to the nodes of others."""
    for (start, other), hops in routes.items():
        if start == host:
            for number, target in enumerate(layout.nodes[other]):
                name, hop = hops[number % len(hops)]
                source = layout.nodes[host][number]
                yield f"route {verb} {target} src {source} via {hop} dev {name}"


def _unused_routes(layout: Layout, host: str) -> Iterator[str]:
    """The commands that add routes by the node interfaces, which carry no traffic.

    UCX requires a route by its own interface.
    """
    others = [layout.nodes[other] for start, other in layout.routes if start == host]
    for target in chain(*others):
        for unused in range(len(layout.nodes[host])):
            yield f"route append {target} dev {NODE}{unused} metric {1000 + unused}"


def _neighbours(layout: Layout, host: str) -> Iterator[str]:
    """The commands that add routes between the NICs of a host, which UCX requires."""
    ends = [(end.name, end.address) for end in layout.interfaces(host)]
    nodes = [(f"{NODE}{i}", own) for i, own in enumerate(layout.nodes.get(host, ()))]
    own = [(name, address.partition("/")[0]) for name, address in nodes or ends]
    for (name, source), (_, target) in permutations(own, 2):
        yield f"route append {target}/32 dev {name} src {source}"
