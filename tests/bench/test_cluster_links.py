"""Links of a cluster on this machine that are cut and mended."""

import re
import subprocess
import sys

import pytest
from collalgo.bench.cluster.kernel import ClusterError, inside, namespace, set_link
from collalgo.bench.cluster.rerouting import reroute

from collalgo import TopologyError
from tests.support.clusters import layout, needs_root

#: What is configured in a namespace: interfaces, addresses, routes, rules and queues.
CONFIGURED = "ip -o link; ip -o addr; ip -4 route show table all; ip rule; tc qdisc"


def configured(plan):
    """The lines of CONFIGURED in each namespace, without what changes by itself."""
    names = [namespace(plan, place) for place in (*plan.hosts, "")]
    commands = [["ip", "netns", "exec", name, "sh", "-c", CONFIGURED] for name in names]
    found = [subprocess.check_output(each, text=True) for each in commands]
    # Handles are numbered at each change; a new address is tentative for a second.
    return [re.sub(r"(?<=qdisc )(\S+) \S+|tentative ", r"\1", each) for each in found]


def reaches(plan, host, address):
    """Whether a host gets an answer, be it a refusal, from an address within 0.3 s."""
    attempt = f"import socket; socket.create_connection(({address!r}, 9), 0.3)"
    command = inside(plan, host, sys.executable, "-c", attempt)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "ConnectionRefusedError" in done.stderr


@needs_root
@pytest.mark.deadline
@pytest.mark.parametrize("name", ["ring", "rails"])
def test_a_mended_cluster_is_what_it_was_before_the_cut(cluster, name):
    plan = cluster(name)
    before = configured(plan)
    assert all("tbf" in each and "peakrate" in each for each in before[:-1])
    for cable in plan.cables:
        link, nic = cable.link, cable.link.split(" - ")[0]
        set_link(plan, link, working=False)
        assert configured(plan) != before
        set_link(plan, nic, working=True)
        assert configured(plan) == before
    for working in (False, False, True):
        for cable in plan.cables:
            set_link(plan, cable.link, working=working)
    assert configured(plan) == before


@needs_root
@pytest.mark.deadline
def test_nothing_passes_a_link_that_is_cut(cluster):
    plan = cluster("ring")
    cable = plan.cables[0]
    near, far = cable.ends
    ways = [
        (near.namespace, far.address.partition("/")[0]),
        (far.namespace, near.address.partition("/")[0]),
    ]
    for working in (True, False, True):
        set_link(plan, cable.link, working=working)
        assert [reaches(plan, *way) for way in ways] == [working, working]


@needs_root
@pytest.mark.deadline
@pytest.mark.parametrize("name", ["ring", "unequal_mesh"])
def test_traffic_is_led_around_a_cut_link_and_back(cluster, name):
    """By addresses of nodes; the routes are then as before."""
    plan = cluster(name)
    before = configured(plan)
    cable = plan.cables[0]
    near, far = (end.namespace for end in cable.ends)
    ways = [(near, plan.nodes[far][0]), (far, plan.nodes[near][0])]
    set_link(plan, cable.link, working=False)
    assert not any(reaches(plan, *way) for way in ways)
    reroute(plan, [cable.link])
    nodes = [node for each in plan.nodes.values() for node in each]
    assert all(reaches(plan, host, node) for host in plan.hosts for node in nodes)
    set_link(plan, cable.link, working=True)
    reroute(plan)
    assert configured(plan) == before


def test_links_without_a_way_around_them_are_refused_by_their_names():
    plan = layout("ring")
    links = [cable.link for cable in plan.cables if "h0/" in cable.link]
    assert len(links) == 2
    with pytest.raises(ClusterError, match=f"no way around {', '.join(links)}; cut"):
        reroute(plan, links)
    with pytest.raises(TopologyError, match="0 links are called 'h9/nic0'"):
        reroute(plan, ["h9/nic0"])


@pytest.mark.parametrize("name", ["star", "racks"])
@pytest.mark.parametrize("cut", [(), ("h0/nic0",)])
def test_hosts_that_do_not_forward_are_refused_before_the_routes(name, cut):
    with pytest.raises(ClusterError, match="do not forward; take a cluster whose"):
        reroute(layout(name), cut)
