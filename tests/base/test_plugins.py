"""Other packages add algorithms, topologies, engines and rendezvous by entry points."""

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo import elastic
from collalgo.base import plugins
from collalgo.cli.main import main
from collalgo.elastic.settings import Settings
from collalgo.engine.transport.engine import added_engine, asked_for
from tests.support.remote_jobs import command

#: A package with one of each; its engine is UCX under another name.
MODULE = """
import collalgo
from collalgo import recv, send
from collalgo.elastic.settings import Settings
from collalgo.engine.transport.ucx import Ucx

@collalgo.algorithm("broadcast", "relay")
def relay(group):
    for rank in range(1, group.size):
        if group.rank == rank - 1:
            yield send(group.right, group.whole)
        elif group.rank == rank:
            yield recv(group.left, group.whole)

def line(hosts=3):
    return collalgo.Topology.load("torus", dims=(hosts,))

def broken(hosts=3):
    return hosts

class Engine(Ucx):
    kind = "mine"
"""

ENTRY_POINTS = """
[collalgo.algorithms]
relay = plugin_of_a_test

[collalgo.topologies]
line = plugin_of_a_test:line
no_topology = plugin_of_a_test:broken

[collalgo.transports]
mine = plugin_of_a_test:Engine
absent = plugin_of_a_test:Absent

[collalgo.rendezvous]
mine = collalgo.elastic.backends:static
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder in which the package is installed."""
    (tmp_path / "plugin_of_a_test.py").write_text(MODULE)
    metadata = tmp_path / "plugin_of_a_test-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: plugin-of-a-test\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("plugin_of_a_test", None)


@pytest.mark.usefixtures("installed")
def test_an_algorithm_of_a_plugin_is_loaded_on_request():
    with pytest.raises(collalgo.AlgorithmNotApplicable, match="load_plugins"):
        collalgo.verify("relay", size=3, collective="broadcast")
    collalgo.load_plugins()
    rows = collalgo.threads(
        lambda comm: comm.broadcast(np.array([comm.rank + 7.0]), algorithm="relay")[0],
        size=3,
    )
    assert rows == [7.0] * 3
    listed = CliRunner().invoke(main, ["algorithms", "-c", "broadcast", "-n", "3"])
    assert "relay" in listed.output


@pytest.mark.usefixtures("installed")
def test_a_topology_of_a_plugin_is_loaded_and_listed():
    machine = collalgo.Topology.load("line", hosts=5)
    assert sum(each.kind == "host" for each in machine.devices()) == 5
    assert "line" in CliRunner().invoke(main, ["topo", "list"]).output
    shown = CliRunner().invoke(main, ["topo", "show", "line", "hosts=4"])
    assert shown.exit_code == 0, shown.output
    with pytest.raises(collalgo.TopologyError, match=r"no_topology: .* returned int"):
        collalgo.Topology.load("no_topology")
    with pytest.raises(collalgo.TopologyError, match=r"Topology.read.*dgx1v, .*line"):
        collalgo.Topology.load("nowhere")


@pytest.mark.usefixtures("installed", "rsh")
def test_an_engine_of_a_plugin_joins_hosts(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_ENGINE", "mine")
    script = tmp_path / "sum.py"
    script.write_text(
        "import collalgo, numpy as np, sys\n"
        "comm = collalgo.init()\n"
        "assert set(comm.hosts) == {0, 1}\n"
        "total = comm.allreduce(np.array([comm.rank + 1.0]))[0]\n"
        "print(total, 'plugin_of_a_test' in sys.modules)\n"
    )
    done = subprocess.run(
        command("a:1,b:1", script), capture_output=True, text=True, timeout=60
    )
    assert done.stdout.count("3.0 True") == 2, done.stdout + done.stderr


@pytest.mark.usefixtures("installed")
def test_a_plugin_adds_the_scheme_of_a_rendezvous():
    meeting = elastic.rendezvous("mine://a", "j", Settings(1, 1), "a")
    assert meeting.join().members == ("a",)


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_cannot_be_imported_is_named():
    with pytest.raises(
        collalgo.PluginError, match=r"absent of plugin-of-a-test .*AttributeError"
    ):
        added_engine("absent")
    with pytest.raises(collalgo.BootstrapError, match="choose one of mpi, ucx, absent"):
        asked_for("other")


def test_an_import_looks_for_no_plugins():
    script = "import sys, collalgo; collalgo.allreduce; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "collalgo.base.environment" in done.stdout
    assert "importlib.metadata" not in done.stdout.split()
    assert plugins.find(plugins.TOPOLOGIES, "of nobody") is None
