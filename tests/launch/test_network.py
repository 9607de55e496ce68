"""Which addresses hosts are reached by: what is tried, and what follows from it."""

import os
import socket
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest
from collalgo.bench.cluster.kernel import inside, namespace
from collalgo.bench.cluster.running import UCX, agent_of

from collalgo.bootstrap.interfaces import Interface
from collalgo.errors import BootstrapError
from collalgo.launch.network import (
    Answers,
    Endpoint,
    Listener,
    networks,
    reached,
    targets,
)
from tests.support.clusters import needs_root
from tests.support.leisure import at_leisure
from tests.support.mpiexec import python_of

LOOPBACK = Interface("lo", "127.0.0.1")
BRIDGE = Interface("docker0", "172.17.0.1")


def host(number, *further):
    """A host with an interface, a bridge of containers, and further interfaces."""
    eth = Interface("eth0", f"10.0.0.{number}")
    found = [eth, *further, BRIDGE, LOOPBACK]
    return Endpoint(f"h{number}", 1, "word", found, ["docker0"])


def answers(tries, by_shell="", **times):
    named = {f"10.0.{name[1]}.{name[3]}": n for name, n in times.items()}
    return Answers(Counter(named), tries, by_shell)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 17, 33, 100])
def test_each_host_is_tried_by_both_neighbours_and_another_and_the_first_by_all(count):
    tried = [targets(number, count) for number in range(count)]
    for number, others in enumerate(tried):
        assert number not in others
        assert len(others) == len(set(others)) <= min(count - 1, 4)
        by = {other for other in range(count) if number in tried[other]}
        assert {(number + 1) % count, (number - 1) % count} - {number} <= by
        assert len(by) >= min(count - 1, 3)
    assert all(0 in others for others in tried[1:])


def test_an_address_that_only_some_hosts_reach_comes_after_those_that_all_reach():
    cable = Interface("eth1", "10.0.1.1")
    endpoints = [host(1, cable), host(2), host(3)]
    found = [answers(2, n0_1=2, n1_1=1), answers(2, n0_2=2), answers(2, n0_3=2)]
    first, second, _ = networks(endpoints, found)
    assert [each.name for each in first.working] == ["eth0"]
    assert str(first) == (
        "eth0 10.0.0.1, eth1 10.0.1.1 (by 1 of 2 hosts), not docker0 172.17.0.1"
    )
    assert first.restricted == ["eth0", "eth1"]
    assert second.restricted == ["eth0"]
    # Where no address is reached by all, the best one is taken, and said to be so.
    first, *_ = networks(endpoints, [answers(3, n0_1=1, n1_1=2), *found[1:]])
    assert [each.name for each in first.working] == ["eth1", "eth0"]
    assert str(first).startswith("eth1 10.0.1.1 (by 2 of 3 hosts), eth0")


def test_the_address_of_the_remote_shell_is_the_first_of_equals():
    both = [host(1, Interface("eth1", "10.0.1.1"))]
    for shell, name in (("", "eth0"), ("10.0.1.1", "eth1"), ("10.9.9.9", "eth0")):
        (found,) = networks(both, [answers(2, shell, n0_1=2, n1_1=2)])
        assert found.working[0].name == name


def test_interfaces_that_the_user_names_have_to_be_reached_by_all():
    cable = Interface("eth1", "10.0.1.1")
    point, found = host(1, cable), answers(3, n0_1=3, n1_1=1)
    (network,) = networks([point], [found], ["eth0"])
    assert [each.name for each in network.working] == ["eth0"]
    with pytest.raises(BootstrapError, match=r"eth1 10\.0\.1\.1 \(by 1 of 3 hosts\)"):
        list(networks([point], [found], ["eth1"]))
    with pytest.raises(BootstrapError, match="host h1 has no interface ib0"):
        list(networks([point], [found], ["ib0"]))


def test_loopback_is_taken_where_hosts_are_names_of_one_machine_only():
    point = host(1)
    same = Answers(Counter({"127.0.0.1": 1}), 1)
    (found,) = networks([point], [same])
    assert found.working == [LOOPBACK]
    with pytest.raises(BootstrapError, match=r"not reached by all .* \(by 0 of 1 host"):
        list(networks([point], [Answers(Counter(), 1)]))


def test_a_listener_goes_on_when_it_was_out_of_descriptors(monkeypatch):
    create = socket.create_server

    class Refusing(socket.socket):
        refused = False

        def accept(self):
            if not self.refused:
                self.refused = True
                raise OSError(24, "Too many open files")
            return super().accept()

    def refusing(*words, **further):
        return Refusing(fileno=create(*words, **further).detach())

    monkeypatch.setattr(socket, "create_server", refusing)
    with closing(Listener()) as listener:
        point = listener.endpoint("a")
        assert "127.0.0.1" in reached(point)


def test_an_address_counts_as_reached_only_if_its_listener_tells_the_word():
    listener, other = Listener(), Listener()
    try:
        right = listener.endpoint("here")
        found = reached(right)
        assert set(found) == {each.address for each in right.interfaces}
        wrong = Endpoint("there", other.port, listener.word, right.interfaces)
        assert reached(wrong) == []
    finally:
        listener.close()
        other.close()
    assert reached(right) == []


# ---- in the networks of a kernel

REPORT = """
import collalgo, os, numpy as np
comm = collalgo.init(timeout=60)
assert comm.size == len(set(comm.hosts)) == 2
assert (comm.allreduce(np.ones(100_000)) == 2).all()
names = ("MASTER_ADDR", "COLLALGO_STORE", "UCX_NET_DEVICES", "COLLALGO_INTERFACES",
         "NCCL_SOCKET_IFNAME", "FI_TCP_IFACE")
print(*(os.environ.get(name) for name in names))
"""


def launch(plan, *words, python=sys.executable):
    """Run the launcher on the first host of a cluster, with a shell to the others."""
    with agent_of(plan) as agent:
        line = [python, "-m", "collalgo", "run", *map(str, words)]
        variables = {"COLLALGO_RSH": str(agent), "UCX_TLS": UCX["UCX_TLS"]}
        return subprocess.run(
            inside(plan, plan.hosts[0], *line), env={**os.environ, **variables},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


def ip(plan, host, *words):
    command = ["ip", "-n", namespace(plan, host), *words]
    subprocess.run(command, check=True)


@pytest.mark.deadline
@needs_root
def test_bridges_and_cables_between_two_hosts_do_not_count_as_networks(cluster):
    """docker0 has one address everywhere; a cable joins h1 and h2 only."""
    plan = cluster("star")
    for each in plan.hosts:
        ip(plan, each, "link", "add", "docker0", "type", "bridge")
        ip(plan, each, "addr", "add", "172.17.0.1/16", "dev", "docker0")
        ip(plan, each, "link", "set", "docker0", "up")
    peer = ("peer", "name", "cable", "netns", namespace(plan, "h2"))
    ip(plan, "h1", "link", "add", "cable", "type", "veth", *peer)
    for end in (1, 2):
        ip(plan, f"h{end}", "addr", "add", f"10.77.0.{end}/24", "dev", "cable")
        ip(plan, f"h{end}", "link", "set", "cable", "up")
    done = launch(plan, "-H", "h0,h1,h2,h3", "--verbose", "true")
    assert done.returncode == 0, done.stderr
    for number in range(4):
        networks = f"eth0 10.1.1.{number + 1}"
        if number in (1, 2):
            networks += f", cable 10.77.0.{number} (by 1 of 3 hosts)"
        networks += ", not docker0 172.17.0.1"
        assert f"host h{number} is reached by {networks}\n" in done.stderr
    assert "the launcher is reached at 10.1.1.1\n" in done.stderr


@pytest.mark.deadline
@needs_root
def test_named_interfaces_steer_store_address_and_engines_alike(cluster, tmp_path):
    plan, script = cluster("rails"), tmp_path / "report.py"
    script.write_text(REPORT)
    done = launch(plan, "-H", "h0,h1", "--interfaces", "eth1", script)
    assert done.returncode == 0, done.stderr
    for rank, line in enumerate(sorted(done.stdout.splitlines())):
        number, master, store, *names = line.split()
        assert (number, master) == (f"[{rank}]", "10.1.2.1")
        assert store.partition(":")[0] == "10.1.2.1"
        assert names == ["eth1"] * 4
    done = launch(plan, "-H", "h0,h1", "--interfaces", "eth7", script)
    assert done.returncode == 1
    assert "has no interface eth7" in done.stderr


TRAFFIC = """
import collalgo, numpy as np
def sent():
    rows = (line.split() for line in open("/proc/net/dev") if ":" in line)
    return {row[0]: int(row[9]) for row in rows}
comm = collalgo.init(timeout=60)
assert comm.hosts == (0, 1)
before = sent()
assert (comm.allreduce(np.ones(50_000)) == 2).all()
print(comm.engine, [sent()[nic] - before[nic] > 100_000 for nic in ("eth0:", "eth1:")])
"""


@pytest.mark.deadline
@needs_root
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("name", "engine"),
    at_leisure(
        [("mpich", "MPICH"), ("openmpi", "Open MPI"), ("intelmpi", "Intel MPI")],
        {("mpich", "MPICH")},
    ),
)
def test_named_interfaces_steer_mpi_between_hosts(cluster, tmp_path, name, engine):
    python = python_of(name)
    plan, script = cluster("rails"), tmp_path / "traffic.py"
    script.write_text(TRAFFIC)
    line = ("--mpi", "-H", "h0,h1", "--interfaces", "eth1", str(script))
    done = launch(plan, *line, python=python)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"MPI ({engine}") == 2, done.stdout
    assert done.stdout.count("[False, True]") == 2, done.stdout
