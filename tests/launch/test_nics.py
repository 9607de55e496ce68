"""The NICs of ranks: equal ones are shared where each reaches all others."""

import json

import pytest

from collalgo.bootstrap.interfaces import Interface, Port, ports
from collalgo.launch import environment
from collalgo.launch.agent import AgentJob
from collalgo.launch.network import HostNetwork
from collalgo.launch.nics import HostNics, nics_of_ranks, shown
from tests.support.clusters import FILES

#: The addresses 10.n.0.h of NIC n of host h, in one network or one for each n.
ONE, APART = 0xFF, 0xFFFF


def port(number, speed=10000, numa=-1, is_device=True, mask=ONE, name="eth"):
    network = 10 | number << 8 & mask
    return Port(f"{name}{number}", is_device, speed, numa, [[network, mask]])


def host(name, found, ranks, working=None):
    names = [each.name for each in found] if working is None else working
    number = int(name[1:])
    reached = [
        Interface(each.name, f"10.{each.name[-1]}.0.{number + 1}")
        for each in found
        if each.name in names
    ]
    return HostNics(HostNetwork(name, reached), found, ranks)


def two(ranks, *found, **more):
    """The NICs of the ranks of both of two hosts that are alike."""
    one, other = nics_of_ranks([host(f"h{i}", found, ranks, **more) for i in (0, 1)])
    assert one == other
    return shown(one)


def test_ranks_share_equal_nics_in_the_order_of_their_numa_nodes():
    assert two(2, port(0), port(1)) == "eth0; eth1"
    assert two(4, port(0), port(1)) == "eth0; eth0; eth1; eth1"
    assert two(3, port(0), port(1)) == "eth0; eth0; eth1"
    assert two(1, port(0), port(1)) == "eth0, eth1"
    assert two(2, port(0, numa=1), port(1, numa=0)) == "eth1; eth0"


def test_slower_and_virtual_interfaces_and_those_that_do_not_work_are_left_out():
    slow, tunnel = port(2, 1000), port(3, 0, is_device=False)
    assert two(2, port(0), port(1), slow, tunnel) == "eth0; eth1"
    assert two(2, port(0), slow, tunnel) == ""
    assert two(2, port(0), port(1), working=["eth1"]) == ""
    assert two(2) == ""


def test_nics_in_networks_of_their_own_are_left_to_the_engine():
    assert two(2, port(0, mask=APART), port(1, mask=APART)) == ""
    default = port(0, mask=APART)._replace(networks=[[0, 0]])
    assert two(2, default, port(1, mask=APART)) == ""


def test_a_host_with_one_nic_has_to_reach_all_nics_of_the_others():
    two_nics = host("h0", [port(0), port(1)], 2)
    for mask, right in ((ONE, "eth0; eth1"), (APART, "")):
        found = nics_of_ranks([two_nics, host("h1", [port(0, mask=mask)], 1)])
        assert [shown(each) for each in found] == [right, ""]


def test_if_only_some_hosts_have_rdma_the_engine_chooses():
    both = host("h0", [port(0), port(1)], 2), host("h1", [], 2)
    assert nics_of_ranks(both) == [[[], []]] * 2


def test_interfaces_that_the_user_names_are_all_shared():
    both = [host(f"h{i}", [port(0), port(1, 1000)], 2) for i in (0, 1)]
    assert [shown(each) for each in nics_of_ranks(both, named=True)] == [
        "eth0; eth1"
    ] * 2


@pytest.mark.parametrize(
    ("cluster", "counts", "right"),
    [
        ("rails", [2] * 4, ["eth0; eth1"] * 4),
        ("rails", [1] * 4, ["eth0"] * 4),
        ("two_and_three", [2, 3], ["", ""]),
    ],
)
def test_a_topology_gives_each_rank_the_nic_near_its_core(cluster, counts, right):
    file = FILES / f"{cluster}.yaml"
    nics = 2 if cluster == "rails" else 1
    found = [port(number) for number in range(nics)]
    hosts = [host(f"h{i}", found, ranks) for i, ranks in enumerate(counts)]
    assert [shown(each) for each in nics_of_ranks(hosts, file)] == right
    others = [each._replace(network=host("h9", found, 1).network) for each in hosts]
    assert [shown(each) for each in nics_of_ranks(others, file)] == right


def test_a_crossed_topology_is_followed(tmp_path):
    straight = '  - {ends: ["h0/nic[0-1]", "h0/cpu[0-1]"], kind: pcie}'
    crossed = [
        f"  - {{ends: [h0/nic{number}, h0/cpu{1 - number}], kind: pcie}}"
        for number in (0, 1)
    ]
    text = (FILES / "rails.yaml").read_text()
    assert straight in text
    file = tmp_path / "crossed.yaml"
    file.write_text(text.replace(straight, "\n".join(crossed)))
    hosts = [host(f"h{i}", [port(0), port(1)], 2) for i in range(4)]
    assert [shown(each) for each in nics_of_ranks(hosts, file)] == [
        "eth1; eth0", *["eth0; eth1"] * 3
    ]  # fmt: skip
    file.write_text("nonsense")
    assert shown(nics_of_ranks(hosts, file)[0]) == "eth0; eth1"


def test_the_interfaces_of_this_host_have_the_routes_of_the_kernel():
    for each in ports():
        assert each.megabits >= 0
        assert all(network & mask == network for network, mask in each.networks)
    assert port(3, mask=APART).has_route("10.3.7.7")
    assert not port(3, mask=APART).has_route("10.4.7.7")


def environments(given, **more):
    ranks = {2: {"RANK": "2"}, 3: {"RANK": "3"}}
    job = AgentJob(["true"], "/", given, ranks, interfaces=["eth7"], **more)
    content = json.loads(job.encode())[1]
    return [each.environment for each in AgentJob.decode(content).plan().specs]


def test_an_agent_gives_each_rank_its_share_unless_the_user_has_chosen(monkeypatch):
    monkeypatch.setattr(environment, "rdma_devices", dict)
    monkeypatch.delenv("UCX_NET_DEVICES", raising=False)
    name, shares = "UCX_NET_DEVICES", [["eth0"], ["eth1", "eth2"]]
    for given in ({}, {"COLLALGO_INTERFACES": "eth0,eth1,eth2"}):
        found = environments(given, shares=shares)
        assert [each[name] for each in found] == ["eth0", "eth1,eth2"]
    assert [each[name] for each in environments({})] == ["eth7"] * 2
    found = environments({name: "all"}, shares=shares)
    assert [each[name] for each in found] == ["all"] * 2


def test_what_is_set_on_a_host_for_the_engine_stays(monkeypatch):
    name, shares = "UCX_NET_DEVICES", [["eth0"], ["eth1"]]
    monkeypatch.setenv(name, "mlx5_0:1")
    for more in ({}, {"shares": shares}):
        assert [each[name] for each in environments({}, **more)] == ["mlx5_0:1"] * 2
