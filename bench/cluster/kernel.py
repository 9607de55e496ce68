"""Make a cluster in the kernel, and take it down again: by ``ip`` and ``tc``."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations

from collalgo.bench.cluster.layout import NODE, Cable, Interface, Layout

from collalgo.errors import CollalgoError

#: Large frames, as clusters have, so that headers do not matter.
MTU = 9000

#: How much may go through a cable at once, in seconds of its rate: as long as a core
#: may be busy with something else. And how much may queue up before it.
BURST, QUEUE = 0.008, 0.03


class ClusterError(CollalgoError):
    """A cluster cannot be made, or is not there."""


def check_possible() -> None:
    """Refuse where namespaces cannot be made.

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
    """A command as it runs on a host, by the name of the host."""
    return [
        *("ip", "netns", "exec", namespace(layout, host), "unshare", "--uts"),
        *("sh", "-c", 'hostname "$0" && exec "$@"', host, *command),
    ]


def is_up(layout: Layout) -> bool:
    """Whether the cluster is there."""
    return namespace(layout) in _namespaces()


def _namespaces() -> list[str]:
    listed = _run("ip", "netns", "list").splitlines()
    return [line.split()[0] for line in listed if line.strip()]


def _own(layout: Layout) -> list[str]:
    """The namespaces of the cluster that are there, that of the fabric last.

    They are known by their whole names: those of another cluster may begin alike. A
    host without the fabric is not of this cluster.
    """
    there = set(_namespaces())
    names = [namespace(layout, place) for place in (*layout.hosts, "")]
    return [name for name in names if name in there] if is_up(layout) else []


def _refuse_taken(layout: Layout) -> None:
    """Refuse to make what is there, for it would be taken down if making it failed.

    Raises
    ------
    ClusterError
        If so.
    """
    if is_up(layout):
        raise ClusterError(f"the cluster {layout.name} is up already; take it down")
    there = set(_namespaces())
    for host in layout.hosts:
        if namespace(layout, host) in there:
            raise ClusterError(
                f"the cluster {layout.name} needs the namespace "
                f"{namespace(layout, host)}, which is there and of another; give one "
                "of the two another name, or remove it by ip netns del"
            )


def up(layout: Layout) -> None:
    """Make the cluster; nothing is left of it if that fails."""
    check_possible()
    _refuse_taken(layout)
    try:
        for place in ("", *layout.hosts):
            _run("ip", "netns", "add", namespace(layout, place))
            _in(layout, place, "ip", "link", "set", "lo", "up")
        for bridge in layout.bridges:
            _in(
                layout,
                "",
                "ip",
                "link",
                "add",
                bridge,
                "mtu",
                str(MTU),
                "type",
                "bridge",
            )
            _in(layout, "", "ip", "link", "set", bridge, "up")
        for host in layout.hosts:
            _settle(layout, host)
        for cable in layout.cables:
            _lay(layout, cable)
        for host in layout.hosts:
            _show_neighbours(layout, host)
        for host, other in layout.routes:
            _route(layout, host, other)
    except BaseException:
        down(layout)
        raise


def _settle(layout: Layout, host: str) -> None:
    """What a host needs beside its cables: it answers only for its own addresses."""
    settings = {
        "conf.all.arp_ignore": 1,
        "conf.all.arp_announce": 2,
        "conf.all.rp_filter": 0,
        "conf.default.rp_filter": 0,
        "tcp_slow_start_after_idle": 0,  # the links of a cluster are its own
        # In every kernel, and keeps links busy, where bbr pauses to find their rate.
        "tcp_congestion_control": "reno",
    }
    if layout.routes:
        settings["ip_forward"] = 1
    for number, address in enumerate(layout.nodes.get(host, ())):
        name, twin = f"{NODE}{number}", f"{NODE}{number}-twin"
        pair = ("mtu", str(MTU), "type", "veth", "peer", "name", twin)
        _in(layout, host, "ip", "link", "add", name, *pair)
        _in(layout, host, "ip", "link", "set", twin, "up")
        _in(layout, host, "ip", "addr", "add", f"{address}/32", "dev", name)
        _in(layout, host, "ip", "link", "set", name, "up")
    for name, value in settings.items():
        path = f"/proc/sys/net/ipv4/{name.replace('.', '/')}"
        _in(layout, host, "sh", "-c", f"echo {value} > {path}")


def _route(layout: Layout, host: str, other: str) -> None:
    """Tell a host the way to each node of another one."""
    ways = layout.routes[host, other]
    for number, target in enumerate(layout.nodes[other]):
        name, hop = ways[number % len(ways)]
        source = layout.nodes[host][number]
        _in(layout, host, "ip", "route", "add", target, "src", source,
            "via", hop, "dev", name)  # fmt: skip
        # UCX wants to see a route by its own interface, even if none goes there.
        for unused in range(len(layout.nodes[host])):
            _in(layout, host, "ip", "route", "append", target, "dev", f"{NODE}{unused}",
                "metric", str(1000 + unused))  # fmt: skip


def _lay(layout: Layout, cable: Cable) -> None:
    """Lay a cable, each end of which sends no faster than its rate."""
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
        _in(layout, place, "ip", "link", "set", end.name, "master", end.bridge)
    if end.address:
        _in(layout, place, "ip", "addr", "add", end.address, "dev", end.name)
    _in(layout, place, "ip", "link", "set", end.name, "up")
    _in(
        layout,
        place,
        *("tc", "qdisc", "add", "dev", end.name, "root", "tbf"),
        *("rate", f"{8 * rate:.0f}bit"),
        *("burst", str(max(int(BURST * rate), 65536))),
        *("latency", f"{QUEUE}s"),
    )
    if end.address.startswith("10.254."):
        return
    if place and end.address:  # what comes from an address leaves by its interface
        source = end.address.partition("/")[0]
        table = str(100 + int(end.name.removeprefix("eth")))
        _in(layout, place, "ip", "rule", "add", "from", source, "table", table)
        _in(layout, place, "ip", "route", "add", "10.1.0.0/16", "dev", end.name,
            "src", source, "table", table)  # fmt: skip


def _show_neighbours(layout: Layout, host: str) -> None:
    """Let UCX see that each NIC reaches the others of its host; the kernel knows."""
    ends = [(end.name, end.address) for end in layout.interfaces(host)]
    nodes = [(f"{NODE}{i}", own) for i, own in enumerate(layout.nodes.get(host, ()))]
    own = [(name, address.partition("/")[0]) for name, address in nodes or ends]
    for (name, source), (_, target) in permutations(own, 2):
        _in(layout, host, "ip", "route", "append", f"{target}/32", "dev", name,
            "src", source)  # fmt: skip


def set_link(layout: Layout, link: str, *, working: bool) -> None:
    """Cut a link, named by its ends or by a NIC, or mend it.

    Raises
    ------
    ClusterError
        If there is none of this name.
    """
    found = [c for c in layout.cables if link in (c.link, *c.link.split(" - "))]
    if len(found) != 1:
        names = ", ".join(cable.link for cable in layout.cables)
        raise ClusterError(f"{len(found)} links are called {link!r}; there are {names}")
    # The far end, so that the host itself sees no link go down.
    end = next((e for e in found[0].ends if not e.namespace), found[0].ends[1])
    state = "up" if working else "down"
    _in(layout, end.namespace, "ip", "link", "set", end.name, state)


def processes(layout: Layout) -> Iterator[int]:
    """The processes that run on the hosts."""
    for name in _own(layout):
        yield from map(int, _run("ip", "netns", "pids", name).split())


def down(layout: Layout) -> None:
    """Take the cluster down, with all that runs on it; it need not be there."""
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


def _in(layout: Layout, place: str, *command: str) -> str:
    return _run("ip", "netns", "exec", namespace(layout, place), *command)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(
            f"{' '.join(command)} failed: {done.stderr.strip() or done.returncode}"
        )
    return done.stdout
