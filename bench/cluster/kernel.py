"""Create and remove a cluster in the kernel, by ``ip`` and ``tc``."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from collalgo.bench.cluster.layout import NODE, Cable, Interface, Layout
from collalgo.bench.cluster.route_commands import routes
from collalgo.bench.cluster.token_bucket import token_bucket

from collalgo.errors import CollalgoError

#: Jumbo frames, as in clusters, so that headers are negligible.
MTU = 9000


class ClusterError(CollalgoError):
    """A cluster cannot be created, or does not exist."""


def check_possible() -> None:
    """Check that namespaces can be created.

    Raises
    ------
    ClusterError
        Without Linux, root, or iproute2.
    """
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or missing:
        raise ClusterError(
            "a cluster on one machine needs Linux, root, and the commands ip and tc of "
            f"iproute2; this is {sys.platform}, user {os.geteuid()}, and "
            f"{' and '.join(missing) or 'nothing'} is missing"
        )


def namespace(layout: Layout, host: str = "") -> str:
    """The name of the namespace of a host, or of the fabric."""
    return f"collalgo-{layout.name}" + (f"-{host}" if host else "")


def inside(layout: Layout, host: str, *command: str) -> list[str]:
    """The command line that runs a command on a host, with its hostname."""
    return [
        *("ip", "netns", "exec", namespace(layout, host), "unshare", "--uts"),
        *("sh", "-c", 'hostname "$0" && exec "$@"', host, *command),
    ]


def is_up(layout: Layout) -> bool:
    """Whether the cluster exists."""
    return namespace(layout) in existing()


def existing() -> list[str]:
    """The names of all namespaces."""
    listed = _run("ip", "netns", "list").splitlines()
    return [line.split()[0] for line in listed if line.strip()]


def namespaces(layout: Layout) -> list[str]:
    """The namespaces of a cluster, that of the fabric last."""
    return [namespace(layout, place) for place in (*layout.hosts, "")]


def _own(layout: Layout) -> list[str]:
    """The existing namespaces of the cluster, that of the fabric last.

    Those of hosts that its file had when it was created have its mark. Names are
    compared in full, since those of another cluster may share a prefix. A host without
    the fabric and the mark does not belong to this cluster.
    """
    there, fabric = existing(), namespace(layout)
    given = set(namespaces(layout)) if fabric in there else {fabric}
    own = [
        name
        for name in there
        if name in given or (name.startswith(f"{fabric}-") and _mark(name) == fabric)
    ]
    return sorted(own, key=lambda name: name == fabric)


def clusters() -> list[str]:
    """The names of all clusters that are up."""
    prefix = "collalgo-"
    there = [name for name in existing() if name.startswith(prefix)]
    return sorted(name.removeprefix(prefix) for name in there if _mark(name) == name)


def check_is_up(layout: Layout) -> None:
    """Check that a cluster exists.

    Raises
    ------
    ClusterError
        If it does not; the error names those that do.
    """
    if not is_up(layout):
        up_now = ", ".join(clusters()) or "none"
        raise ClusterError(
            f"the cluster {layout.name} is not up; clusters that are up: {up_now}"
        )


def _mark(name: str) -> str:
    """The fabric of the cluster of a namespace: the alias of its loopback device."""
    with suppress(ClusterError):  # it is just being removed
        shown = _run("ip", "-n", name, "-o", "link", "show", "dev", "lo")
        return shown.partition("alias ")[2].strip()
    return ""


def _refuse_taken(layout: Layout) -> None:
    """Check that no namespace exists, since a failed creation removes all of them.

    Raises
    ------
    ClusterError
        If a namespace of the cluster exists.
    """
    if is_up(layout):
        raise ClusterError(f"the cluster {layout.name} is up already; take it down")
    there = set(existing())
    for host in layout.hosts:
        if namespace(layout, host) in there:
            raise ClusterError(
                f"cluster {layout.name}: the namespace {namespace(layout, host)} "
                "exists already; rename the cluster, or remove the namespace by ip "
                "netns del"
            )


def up(layout: Layout) -> None:
    """Create the cluster; remove everything if that fails."""
    check_possible()
    _refuse_taken(layout)
    try:
        _create(layout)
    except BaseException:
        down(layout)
        raise


def _create(layout: Layout) -> None:
    """Create the namespaces, the bridges, the cables, and the routes."""
    for place in ("", *layout.hosts):
        _run("ip", "netns", "add", namespace(layout, place))
        mark = ("alias", namespace(layout))
        execute(layout, place, "ip", "link", "set", "lo", "up", *mark)
    for bridge in layout.bridges:
        kind = ("mtu", str(MTU), "type", "bridge")
        execute(layout, "", "ip", "link", "add", bridge, *kind)
        execute(layout, "", "ip", "link", "set", bridge, "up")
    for host in layout.hosts:
        _settle(layout, host)
    for cable in layout.cables:
        _lay(layout, cable)
    for host in layout.hosts:
        _route(layout, host)


def _settle(layout: Layout, host: str) -> None:
    """Configure a host: its kernel settings, and its node addresses."""
    settings = {
        "conf.all.arp_ignore": 1,
        "conf.all.arp_announce": 2,
        "conf.all.rp_filter": 0,
        "conf.default.rp_filter": 0,
        "tcp_slow_start_after_idle": 0,  # no other traffic uses the links
        # Available in every kernel; bbr would pause to probe the rate of a link.
        "tcp_congestion_control": "reno",
    }
    if layout.routes:
        settings["ip_forward"] = 1
    for number, address in enumerate(layout.nodes.get(host, ())):
        name, twin = f"{NODE}{number}", f"{NODE}{number}-twin"
        pair = ("mtu", str(MTU), "type", "veth", "peer", "name", twin)
        execute(layout, host, "ip", "link", "add", name, *pair)
        execute(layout, host, "ip", "link", "set", twin, "up")
        execute(layout, host, "ip", "addr", "add", f"{address}/32", "dev", name)
        execute(layout, host, "ip", "link", "set", name, "up")
    for name, value in settings.items():
        path = f"/proc/sys/net/ipv4/{name.replace('.', '/')}"
        execute(layout, host, "sh", "-c", f"echo {value} > {path}")


def _route(layout: Layout, host: str) -> None:
    """Add the routes from a host, hundreds in a torus, by one process."""
    if lines := routes(layout, host):
        execute(layout, host, "ip", "-batch", "-", given="\n".join(lines))


def _lay(layout: Layout, cable: Cable) -> None:
    """Create a cable, with both ends limited to its rate."""
    a, b = cable.ends
    _run(
        *("ip", "link", "add", a.name, "mtu", str(MTU)),
        *("netns", namespace(layout, a.namespace), "type", "veth"),
        *("peer", "name", b.name, "mtu", str(MTU)),
        *("netns", namespace(layout, b.namespace)),
    )
    for end in cable.ends:
        _connect(layout, end, cable.bytes_per_second)


def _connect(layout: Layout, end: Interface, rate: float) -> None:
    place = end.namespace
    if end.bridge:
        execute(layout, place, "ip", "link", "set", end.name, "master", end.bridge)
    if end.address:
        execute(layout, place, "ip", "addr", "add", end.address, "dev", end.name)
    execute(layout, place, "ip", "link", "set", end.name, "up")
    _set_qdisc(layout, end, token_bucket(rate))
    if place and end.address and not end.address.startswith("10.254."):
        _route_by_source(layout, end)


def _set_qdisc(layout: Layout, end: Interface, qdisc: list[str]) -> None:
    """Pass the packets that leave an interface through a queueing discipline."""
    command = ("tc", "qdisc", "replace", "dev", end.name, "root", *qdisc)
    execute(layout, end.namespace, *command)


def _route_by_source(layout: Layout, end: Interface) -> None:
    """Send packets from the address of an interface through that interface."""
    place, source = end.namespace, end.address.partition("/")[0]
    table = str(100 + int(end.name.removeprefix("eth")))
    execute(layout, place, "ip", "rule", "add", "from", source, "table", table)
    execute(layout, place, "ip", "route", "add", "10.1.0.0/16", "dev", end.name,
        "src", source, "table", table)  # fmt: skip


def set_link(layout: Layout, link: str, *, working: bool) -> None:
    """Cut a link, named by its ends or by a NIC, or restore it.

    Both ends drop what they would send. The interfaces stay up, since one that is set
    down loses its routes.

    Raises
    ------
    TopologyError
        If no link, or more than one, has this name.
    ClusterError
        If the cluster is not up.
    """
    cable = layout.cable(link)
    check_is_up(layout)
    qdisc = token_bucket(cable.bytes_per_second) if working else ["blackhole"]
    for end in cable.ends:
        _set_qdisc(layout, end, qdisc)


def processes(layout: Layout) -> Iterator[int]:
    """The processes on the hosts."""
    for name in _own(layout):
        yield from map(int, _run("ip", "netns", "pids", name).split())


def down(layout: Layout) -> None:
    """Remove the cluster, if it exists, and kill its processes."""
    check_possible()
    for _ in range(50):
        running = list(processes(layout))
        for process in running:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if not running:
            break
        time.sleep(0.02)
    for name in _own(layout):
        _run("ip", "netns", "del", name)


def execute(layout: Layout, place: str, *command: str, given: str = "") -> str:
    """The output of a command in the namespace of a host, or of the fabric."""
    return _run("ip", "netns", "exec", namespace(layout, place), *command, given=given)


def _run(*command: str, given: str = "") -> str:
    """The output of a command, which reads ``given`` as its input."""
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClusterError(
            f"{' '.join(command)} failed: {done.stderr.strip() or done.returncode}"
        )
    return done.stdout
