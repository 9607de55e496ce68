"""The prices of hosts that share the cores of one machine."""

from collections import Counter
from dataclasses import replace

import pytest

from collalgo import select
from collalgo.algorithms.catalogue import find
from collalgo.bootstrap.host_inventory import PlacedTopology
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.selection.on_topology import TopologyPricer
from tests.support.ranks_on_hosts import ranks_on_hosts

PROFILE = HostProfile(2e-7, 2e-6, 1e-7, 1e-10, 1e-10, cores=2)

#: The costs of messages if each rank has a core.
APART = LinkModel(network_message=1e-5, network_byte=1e-6, reduction=1e-6)

ROWS = [
    *(("allreduce", name) for name in ("linear", "ring", "one_shot", "two_shot")),
    *(("allgather", name) for name in ("direct", "ring", "bruck")),
    *(("broadcast", name) for name in ("linear", "binomial")),
]


def price(name, collective, size, model):
    topology, cores, *_ = ranks_on_hosts(*[1] * size)
    row = find(collective, name, size)
    return TopologyPricer(topology, model, cores).price_one(row).price


@pytest.mark.parametrize(("collective", "name"), ROWS)
@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 17])
def test_shared_cores_cost_only_what_a_core_for_each_rank_would_do(
    collective, name, size
):
    apart = price(name, collective, size, APART)
    before = None
    for cores in (size, 2, 1):
        one = price(name, collective, size, replace(APART, shared_cores=cores))
        for nbytes in (0.0, 1e6):
            if cores == size:
                assert one.seconds(nbytes) == pytest.approx(apart.seconds(nbytes))
            else:
                assert one.seconds(nbytes) >= before.seconds(nbytes) * (1 - 1e-9)
        before = one


@pytest.mark.parametrize(("collective", "name"), ROWS)
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_one_shared_core_does_the_work_of_all_messages(collective, name, size):
    model = LinkModel(
        dict.fromkeys(LinkModel().latency, 0.0),
        message=0.0,
        network_message=1.0,
        shared_cores=1,
    )
    row = find(collective, name, size)
    placement = Placement(*ranks_on_hosts(*[1] * size)[:2], model)
    sent = Counter(placement.messages(row.schedule).sends.step.tolist())
    found = price(name, collective, size, model).seconds(0.0)
    assert found == pytest.approx(sum(count - 1 for count in sent.values()))


@pytest.mark.parametrize(("collective", "name"), ROWS)
def test_representatives_stand_for_the_work_of_all_ranks(collective, name):
    model = replace(APART, shared_cores=2)
    placement = Placement(*ranks_on_hosts(*[2] * 6)[:2], model)
    schedule = find(collective, name, placement.size).schedule
    folded = placement.rounds(placement.fold(schedule)).line
    whole = rounds(placement.messages(schedule), placement.routes).line
    assert placement.cluster is not None
    assert folded == pytest.approx(whole)


@pytest.mark.parametrize("size", [4, 5, 7, 8, 12, 16, 17])
def test_fewer_messages_are_chosen_where_cores_are_shared(size):
    topology, cores, *_ = ranks_on_hosts(*[1] * size)
    sent = {}
    for shared in (0, 2):
        model = LinkModel.of_host(PROFILE, shared)
        pricer = TopologyPricer(topology, model, cores)
        row = select("allreduce", 8, topology=pricer).row
        sent[shared] = len(pricer.placement.messages(row.schedule).sends.step)
    assert sent[2] < sent[0]


#: The kernel, the host and the cores of some ranks.
SEEN = (
    *(("a", 0, [0, 1]), ("a", 1, [1, 2]), ("a", 1, [1, 2]), ("a", 2, [0, 1])),
    *(("b", 3, [0, 1]), ("", 4, [0])),
)


def seen(views):
    """Some ranks on the hosts of :data:`SEEN`."""
    found = [
        {"identity": f"{kernel} {host} host", "cores": cores}
        for kernel, host, cores in views
    ]
    topology, devices, *_ = ranks_on_hosts(1, 2, 1, 1, 1)
    return PlacedTopology.seen(topology, devices, found, (0, 1, 1, 2, 3, 4))


def test_the_cores_of_one_kernel_are_counted_once():
    placed = seen(SEEN)
    assert placed.shared_cores == 0
    assert placed.of([0, 1, 2, 3]).shared_cores == 3
    assert placed.of([0, 1, 2]).shared_cores == 0  # a core for each
    assert placed.of([0, 3]).shared_cores == 0
    assert placed.of([1]).shared_cores == 0  # on one host
    assert placed.of([0, 1, 2, 4]).shared_cores == 0  # of two machines
    assert seen(SEEN[5:] * 6).shared_cores == 0  # of kernels without a name
    assert ranks_on_hosts(1, 1).of([0]).shared_cores == 0  # which is described only
