"""A cluster on this machine: what a file asks of the kernel, and what runs on it."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from collalgo.bench.cluster.cli import main
from collalgo.bench.cluster.kernel import (
    ClusterError,
    down,
    inside,
    processes,
    up,
)
from collalgo.bench.cluster.layout import layout_of, layout_of_file
from collalgo.bench.cluster.report import (
    errors,
    main as report_command,
    outcomes,
    table,
)
from collalgo.bench.cluster.running import run

from collalgo import Topology, TopologyError, select
from tests.support.clusters import FILES, layout, needs_root
from tests.support.leisure import at_leisure

pytestmark = pytest.mark.deadline

NAMES = sorted(path.stem for path in FILES.glob("*.yaml"))


def test_every_file_is_a_cluster_of_some_hosts():
    others = {
        "fast_ring": [1] * 4,
        "narrow_racks": [1] * 6,
        "slow_ring": [1] * 4,
        "torus": [1] * 9,
        "two_and_three": [1] * 5,
        "two_two_one": [2, 2, 1],
        "unequal_mesh": [1] * 4,
    }
    four = ["racks", "rails", "ring", "star", "unequal"]
    assert sorted([*four, *others]) == NAMES
    for name in NAMES:
        ranks = others.get(name, [2] * 4)
        assert layout(name).slots == {f"h{i}": each for i, each in enumerate(ranks)}


@pytest.mark.parametrize(
    "name", ["slow_ring", "unequal_mesh", "narrow_racks", "two_two_one"]
)
def test_uneven_clusters_run_schedules_near_the_bound(name):
    topology = Topology.read(FILES / f"{name}.yaml")
    for collective in ("allreduce", "broadcast", "gather", "alltoall"):
        chosen = select(collective, 1 << 24, topology=topology)
        assert 1 <= chosen.ratio < 1.2


def test_clusters_of_two_files_have_different_names(tmp_path):
    file, copy = FILES / "star.yaml", tmp_path / "star.yaml"
    copy.write_text(file.read_text())
    names = {layout_of_file(each).name for each in (copy, file, file)}
    assert len(names) == 2
    assert all(name.startswith("star-") for name in names)


@pytest.mark.parametrize("name", NAMES)
def test_tests_take_no_cluster_down_that_a_user_has_up(name):
    """One worker of tests has once killed a job of the same file, and its store."""
    assert layout(name).name != layout_of_file(FILES / f"{name}.yaml").name


def test_nics_of_a_switch_are_in_one_network():
    plan = layout("rails")
    assert plan.bridges == ["br0"]
    assert [end.address for end in plan.interfaces("h2")] == [
        "10.1.1.3/16",
        "10.1.2.3/16",
    ]
    assert not plan.routes


def test_hosts_without_a_switch_pass_on_what_is_for_others():
    plan = layout("ring")
    assert plan.bridges == []
    assert [len(plan.routes["h0", f"h{i}"]) for i in (1, 2, 3)] == [1, 2, 1]
    assert plan.nodes["h3"] == ["10.255.0.4", "10.255.1.4"]


def changed(name, *changes):
    text = (FILES / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed("star", ("kind: network, bandwidth: nic", "kind: network")),
         "has no bandwidth"),
        (changed("star", ("kind: core", "kind: gpu")),
         "0 cores on 4 hosts cannot be emulated"),
        (changed("star", ("ends: [\"h[0-3]/nic0\"", "ends: [\"h[0-3]/cpu0\"")),
         "is neither a NIC nor a switch"),
        (changed("racks", ("links:", "links:\n  - {ends: [rack0, rack1], "
                           "kind: network, bandwidth: nic}")), "form a cycle"),
    ],
)  # fmt: skip
def test_what_the_kernel_cannot_have_is_refused(text, message, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(TopologyError, match=message):
        layout_of(Topology.read(path))
    done = CliRunner().invoke(main, ["up", str(path)])
    assert done.exit_code == 1
    assert message in done.output


#: Says which host it is to whoever connects.
SERVER = """
import socket
server = socket.create_server(("", 5001))
while True:
    server.accept()[0].sendall(socket.gethostname().encode())
"""

#: Connects to each address, as soon as its server listens, and prints its host.
CLIENT = """
import socket, sys, time
for address in sys.argv[1:]:
    end = time.monotonic() + 5
    while True:
        try:
            print(socket.create_connection((address, 5001), 5).recv(99).decode())
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end, address
            time.sleep(0.02)
"""


@needs_root
@pytest.mark.parametrize(
    "name", at_leisure(NAMES, {"racks", "rails", "ring", "two_and_three"})
)
def test_every_host_reaches_every_other(cluster, name):
    plan = cluster(name)
    with pytest.raises(ClusterError, match="is up already"):
        up(plan)
    servers = [
        subprocess.Popen(inside(plan, host, sys.executable, "-c", SERVER))
        for host in plan.hosts
    ]
    addresses = plan.nodes or {
        host: [end.address.partition("/")[0] for end in plan.interfaces(host)]
        for host in plan.hosts
    }
    planes = [*zip(*addresses.values(), strict=True)]
    targets = [address for plane in planes for address in plane]
    for host in plan.hosts:
        command = inside(plan, host, sys.executable, "-c", CLIENT, *targets)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == plan.hosts * len(planes)
    down(plan)
    for one in servers:
        assert one.wait(5) != 0


@needs_root
def test_what_is_for_different_nodes_of_a_host_takes_different_ways(cluster):
    plan = cluster("ring")
    for host, far in (("h0", "h2"), ("h1", "h3")):
        taken = set()
        for target in plan.nodes[far]:
            command = inside(plan, host, "ip", "route", "get", target)
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            taken.add(done.stdout.split("dev ")[1].split()[0])
        assert taken == {"eth0", "eth1"}


SCRIPT = """
import numpy as np, collalgo
comm = collalgo.init(timeout=60)
assert comm.hosts == (0, 0, 1, 1, 2, 2, 3, 3), comm.hosts
x = np.full(100_000, comm.rank + 1.0)
collalgo.allreduce(x)
assert (x == 36).all()
chosen = comm.select("allreduce", 1 << 24)
print(f"rank {comm.rank}: {chosen.algorithm} by {chosen.basis};", flush=True)
"""


@needs_root
@pytest.mark.mpi
@pytest.mark.parametrize("name", at_leisure(["ring", "rails"], {"rails"}))
def test_a_job_runs_on_the_cluster_and_knows_its_links(cluster, name, tmp_path):
    plan, script = cluster(name), tmp_path / "script.py"
    script.write_text(SCRIPT)
    file = FILES / f"{name}.yaml"
    done = run(plan, [sys.executable, str(script)], description=file, capture=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.replace(";", "\n").split("\n") if line]
    assert len(lines) == 8
    assert len({line.partition(": ")[2] for line in lines}) == 1
    assert f"the links of {name}" in lines[0]
    assert not list(processes(plan))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["-m", "timeit", "-n", "1"], [sys.executable, "-m", "timeit", "-n", "1"]),
        ([__file__, "-m"], [sys.executable, __file__, "-m"]),
        (["true", "-m"], ["true", "-m"]),
    ],
)
def test_a_cluster_runs_scripts_modules_and_programs(given, line, monkeypatch):
    lines = []

    def record(_layout, command, **_):
        lines.append([*command])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("collalgo.bench.cluster.cli.run", record)
    done = CliRunner().invoke(main, ["run", str(FILES / "star.yaml"), *given])
    assert done.exit_code == 0, done.output
    assert lines == [line]


@pytest.mark.parametrize("option", ["-n", "--ranks", "--mpi", "--ranks=2"])
def test_an_option_after_the_file_is_to_precede_it(option):
    words = ["run", str(FILES / "star.yaml"), option, "2", "true"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    name = option.partition("=")[0]
    assert f"{name} follows FILE, where COMMAND begins; put it before" in done.output


def test_without_root_the_command_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = CliRunner().invoke(main, ["up", str(FILES / "star.yaml")])
    assert done.exit_code == 1
    assert "needs Linux, root" in done.output


def entry(algorithm, seconds, predicted=0.0, chosen=False):
    return {
        "collective": "allreduce", "nbytes": 1 << 24, "algorithm": algorithm,
        "predicted": predicted, "bound": 1.0, "seconds": seconds, "chosen": chosen,
    }  # fmt: skip


RACES = {
    "star": [
        entry("torus_2d(dims=(2, 4))", [1.1, 1.0, 1.2], 1.0, chosen=True),
        entry("ring", [1.25, 1.2, 9.0], 1.2),
        entry("MPICH 5", [2.2, 2.3, 2.1]),
    ],
    "star_openmpi": [entry("ring", [3.0], 1.2), entry("Open MPI 5", [3.3])],
}


def test_races_are_told_beside_the_bound_and_the_peers(tmp_path):
    for name, entries in RACES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"entries": entries}))
    found = list(outcomes(sorted(tmp_path.glob("*.json"))))
    *_, row = table(found)
    assert row == (
        "| star | allreduce | torus_2d | 1.10 | 1.10 | 1.00 | -9 % "
        "| MPICH 5 x 2.00, Open MPI 5 x 3.00 |"
    )
    assert errors(found) == pytest.approx([0.1 / 1.1, 0.04])
    done = CliRunner().invoke(
        report_command, [str(tmp_path / "star.json"), "-o", str(tmp_path / "bars.png")]
    )
    assert "prices are off by 6.5 % in the median" in done.output
    assert (tmp_path / "bars.png").stat().st_size > 1000
