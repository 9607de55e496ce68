"""The least time of broadcasts and reductions in rounds, whose ranks relay data."""

from itertools import combinations
from math import sqrt

import pytest

from collalgo import Topology, select, simulate
from collalgo.cost.bounds import bound
from collalgo.cost.link_model import LinkModel
from collalgo.cost.lower_bound import AS_LOW, Relay
from collalgo.schedule import divide, recv, send
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.fabrics import Cable, nodes_of, star
from collalgo.topology.model import LinkKind
from tests.support.host_networks import network
from tests.support.leisure import at_leisure

#: A message costs no more than its latency and its bytes.
PLAIN = LinkModel(message=0.0)

ALPHA, SPEED = 1e-5, 25.0


def on_one_switch(size):
    topology = Topology(f"star{size}", "a test")
    star(topology, [*nodes_of(topology, size)], "switch", Cable(SPEED, ALPHA / 2))
    return topology


def fully_connected(size):
    topology = Topology(f"full{size}", "a test")
    for one, other in combinations(nodes_of(topology, size), 2):
        topology.link(one, other, LinkKind.NETWORK, SPEED, latency=ALPHA)
    return topology


MACHINES = {
    "full": lambda: fully_connected(5),
    "star": lambda: on_one_switch(5),
    "torus": lambda: Topology.load("torus", dims=(3, 3), latency=1e-6),
    "server": lambda: Topology.load("dgx1v"),
    "hosts": lambda: Topology.load("dgx_a100", hosts=3, nics=2),
    "nics": lambda: Topology.load("dgx_h100", hosts=2),
    "subset": lambda: Topology.load("dgx1v", hosts=2).without(
        "host1/gpu2", "host1/gpu6"
    ),
    **{f"random{i}": lambda i=i: network(3 + i, extra=1.0, seed=i) for i in range(5)},
}


QUICK = {"full", "star", "torus", "nics", "random0", "random2"}


@pytest.mark.parametrize("machine", at_leisure(MACHINES, QUICK))
def test_no_schedule_is_faster_than_the_least_in_rounds(machine):
    """The choice is the cheapest, so that no other price is below either."""
    topology = MACHINES[machine]()
    pricer = TopologyPricer(topology)
    for collective in ("broadcast", "reduce"):
        for nbytes in (1 << 12, 1 << 20, 1 << 30):
            found = select(collective, nbytes, topology=pricer)
            assert found.ratio_in_rounds >= 1 - AS_LOW, (collective, nbytes)
            assert found.ratio_in_rounds <= found.ratio


def scattered(steps):
    """A broadcast that scatters a part in each step, and gathers that of the last."""

    def schedule(group):
        others = [i for i in range(group.size) if i != 0]
        parts = [divide(part, len(others)) for part in divide(group.whole, steps)]
        for step in range(steps + 1):
            transfers = []
            for i, of in enumerate(others):
                if step < steps and group.rank == 0:
                    transfers.append(send(group.peer(of), parts[step][i]))
                if step < steps and group.rank == of:
                    transfers.append(recv(group.peer(0), parts[step][i]))
                for to in others if step else ():
                    if to != of and group.rank == of:
                        transfers.append(send(group.peer(to), parts[step - 1][i]))
                    if to != of and group.rank == to:
                        transfers.append(recv(group.peer(of), parts[step - 1][i]))
            yield tuple(transfers)

    return schedule


@pytest.mark.parametrize("size", [3, 8, 17, 33])
def test_on_a_switch_it_is_attained_by_a_pipelined_scatter_and_allgather(size):
    topology, nbytes = on_one_switch(size), 1 << 28
    limit = bound("broadcast", topology, link_model=PLAIN)
    seconds = nbytes / (SPEED * 1e9)
    steps = round(sqrt(seconds / ALPHA))
    found = simulate(
        scattered(steps), topology, nbytes, collective="broadcast", link_model=PLAIN
    )
    late = sqrt(1 - 1 / (size - 1))
    least = (sqrt(seconds) + late * sqrt(ALPHA)) ** 2
    assert limit.in_rounds(nbytes) == pytest.approx(least, rel=1e-6)
    assert least * (1 - AS_LOW) <= found.seconds
    assert found.seconds - least <= 2.1 * (1 - late) * sqrt(seconds * ALPHA) + ALPHA


@pytest.mark.parametrize("size", [3, 5, 8, 12, 16])
def test_over_links_of_all_pairs_each_step_waits_for_the_messages_to_all(size):
    topology, nbytes = fully_connected(size), 1 << 32
    model = LinkModel(message=ALPHA / 2)
    limit = bound("broadcast", topology, link_model=model)
    seconds, step = nbytes / (SPEED * 1e9 * (size - 1)), ALPHA * size / 2
    least = (sqrt(seconds) + sqrt((1 - 1 / (size - 1)) * step)) ** 2
    found = simulate(
        scattered(round(sqrt(seconds / step))),
        topology,
        nbytes,
        collective="broadcast",
        link_model=model,
    )
    assert limit.in_rounds(nbytes) == pytest.approx(least, rel=1e-6)
    assert least * (1 - AS_LOW) <= found.seconds <= least * 1.02


@pytest.mark.parametrize("nbytes", [1, 1 << 10, 1 << 16])
def test_few_bytes_may_use_fewer_links_in_a_step(nbytes):
    topology, model = fully_connected(8), LinkModel(message=ALPHA / 2)
    limit = bound("broadcast", topology, link_model=model)
    (relay, *_) = limit.relays
    assert isinstance(relay, Relay)
    assert relay.full == pytest.approx(7)
    found = [
        (sqrt(nbytes / SPEED * 1e-9 / m) + sqrt(6 / 7 * (1 + (m - 1) / 2) * ALPHA)) ** 2
        for m in range(1, 8)
    ]
    assert relay.seconds(nbytes) == pytest.approx(min(found), rel=1e-6)


def test_slower_links_of_others_leave_fewer_ranks_to_relay():
    """Of two receivers as fast as the root and a faster one only the two count."""
    topology = Topology("uneven", "a test")
    hosts = [*nodes_of(topology, 4)]
    star(topology, hosts[:3], "switch", Cable(SPEED, ALPHA / 2))
    star(topology, hosts[3:], "fast", Cable(100 * SPEED, ALPHA / 2))
    topology.link("switch", "fast", LinkKind.NETWORK, 100 * SPEED)
    limit = bound("broadcast", topology, link_model=PLAIN)
    found = [one for one in limit.relays if isinstance(one, Relay)]
    assert found
    for relay in found:
        assert relay.latency == pytest.approx(ALPHA / 2)


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "scatter"])
def test_data_of_all_ranks_and_blocks_need_not_be_relayed(collective):
    limit = bound(collective, Topology.load("dgx1v", hosts=2))
    assert limit.in_rounds(1 << 30) == limit.seconds(1 << 30)
