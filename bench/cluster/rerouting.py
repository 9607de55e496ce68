"""Routes around links that are cut, as a routing protocol of the hosts finds them."""

from collections.abc import Iterable

from collalgo.bench.cluster.kernel import ClusterError, execute
from collalgo.bench.cluster.layout import Layout, routes_over
from collalgo.bench.cluster.route_commands import routes_from


def reroute(layout: Layout, cut: Iterable[str] = ()) -> None:
    """Lead traffic over the links that are not cut, on every host.

    Addresses and connections stay, so that what was lost is sent again by other ways.

    Parameters
    ----------
    layout
        A cluster that is up, whose hosts forward.
    cut
        The links that are cut, named by a NIC or by both ends.

    Raises
    ------
    ClusterError
        If hosts do not forward, or a host cannot be reached any more.
    """
    gone = [layout.cable(link).link for link in cut]
    if not layout.routes:
        raise ClusterError(
            f"the hosts of the cluster {layout.name} do not forward; take a cluster "
            "whose hosts are cabled to each other"
        )
    routes = routes_over([one for one in layout.cables if one.link not in gone])
    if routes.keys() != layout.routes.keys():
        raise ClusterError(
            f"the cluster {layout.name} has no way around {', '.join(gone)}; cut a "
            "link of hosts that are cabled to each other in more than one way"
        )
    for host in layout.hosts:
        lines = routes_from(layout, host, routes, "replace")
        execute(layout, host, "ip", "-batch", "-", given="\n".join(lines))
