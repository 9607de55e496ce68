"""Networks of hosts with links of their own, whose bound by cuts trees attain."""

import random
from itertools import product

from collalgo import Topology
from collalgo.topology.model import Kind, LinkKind

#: GB/s of links, among them some that no fraction of the others is.
SPEEDS = (1.0, 1 / 3, 2.5, 5.0, 7.0)


def network(size, extra=2.0, seed=0):
    """Hosts joined by a random tree and some further links of random speeds.

    Parameters
    ----------
    size
        The number of hosts.
    extra
        The number of further links for each host.
    seed
        Of the random numbers.
    """
    chance = random.Random(f"{seed} {size} {extra}")
    topology = Topology(f"network{size}", "a test")
    hosts = [topology.add(f"host{i}", Kind.HOST) for i in range(size)]
    pairs = {(chance.randrange(i), i) for i in range(1, size)}
    for _ in range(int(extra * size)):
        pair = tuple(sorted(chance.sample(range(size), 2))) if size > 1 else None
        pairs |= {pair} - {None}
    for a, b in sorted(pairs):
        speed = chance.choice(SPEEDS)
        topology.link(hosts[a], hosts[b], LinkKind.NETWORK, speed, latency=1e-6)
    return topology


def unmirrored(extra):
    """Two hosts: most of a message takes other links than most of the one back.

    Messages are divided at their ends, by the links there: a third of a host is behind
    the one link of a switch. Maybe a third host has the slowest link.
    """
    machine = Topology("unmirrored", "a test")
    switches = {name: machine.add(name, Kind.SWITCH) for name in "abcdef"}
    hosts = [machine.add(f"host{i}", Kind.HOST) for i in range(2 + extra)]
    pairs = [*product(hosts[:1], "abc"), *product(hosts[1:2], "def")]
    for a, b in [*pairs, *("ad", "bd", "ce", "cf")]:
        ends = switches.get(a, a), switches[b]
        machine.link(*ends, LinkKind.NETWORK, 10.0)
    for host in hosts[2:]:
        machine.link(host, switches["d"], LinkKind.NETWORK, 2.0)
    return machine
