"""The costs of messages, read from a file."""

import re

import pytest
from click.testing import CliRunner

from collalgo import Topology, TopologyError, select, simulate
from collalgo.cli.main import main
from collalgo.cost.bounds import bound
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import DEFAULTS, LATENCY, LinkModel
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.model import LinkKind
from collalgo.topology.path_types import PathType

MINE = """
collalgo: figures/1
latency: {NVL: 2.0e-6, NET: 9.0e-6}
message: 1.0e-7
network_message: 5.0e-6
reduction: 1.0e-12
efficiency: {network: 0.5}
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "figures.yaml"
    path.write_text(MINE)
    return path


def test_a_file_overrides_only_the_keys_it_has(mine):
    link_model = LinkModel.read(mine)
    assert link_model.latency[PathType.NET] == 9e-6
    assert link_model.latency[PathType.PIX] == LATENCY[PathType.PIX]
    assert (link_model.message, link_model.network_message) == (1e-7, 5e-6)
    assert link_model.efficiency == {LinkKind.NETWORK: 0.5}
    mine.write_text("collalgo: figures/1")
    assert LinkModel.read(mine) == DEFAULTS


def test_prices_and_bounds_follow_the_link_model(mine):
    link_model = LinkModel.read(mine)
    machine = Topology.load("dgx1v", hosts=2, nics=1, smp=19.2)
    ring = simulate("ring", machine, 0, collective="allgather", link_model=link_model)
    assert ring.seconds == pytest.approx(15 * 9e-6)
    usual = simulate("ring", machine, 1 << 30, collective="allgather")
    slow = simulate(
        "ring", machine, 1 << 30, collective="allgather", link_model=link_model
    )
    assert slow.steps[0] - 9e-6 == pytest.approx(2 * (usual.steps[0] - 2.7e-6))
    assert bound("barrier", machine, link_model=link_model).latency >= 9e-6
    chosen = select("barrier", 0, topology=TopologyPricer(machine, link_model))
    assert chosen.ratio >= 1


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "alltoall", "gather"])
@pytest.mark.parametrize(
    "machine", [Topology.load("dgx1v", hosts=2), Topology.load("torus", dims=(3, 3))]
)
def test_cuts_count_the_usable_bandwidth(collective, machine):
    """Else other bounds, of the same links, seem to be the reason."""
    half = LinkModel(efficiency=dict.fromkeys(LinkKind, 0.5))
    plain = bound(collective, machine)
    found = bound(collective, machine, link_model=half)
    assert float(found.per_byte) == pytest.approx(2 * float(plain.per_byte))
    assert found.witness == plain.witness
    reasons = [re.sub(r"[\d.]+ GB/s", "", one.reason) for one in (found, plain)]
    assert reasons[0] == reasons[1]
    assert found.exact == plain.exact


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("latency: {NVL: 1}", "the first line"),
        ("collalgo: figures/1\nlatency: 3", "must map names"),
        (
            "collalgo: figures/1\nlatency: {NVLINK: 1.0e-6}",
            "unknown name 'NVLINK'; choose from LOC",
        ),
        ("collalgo: figures/1\nmessage: -1", "message"),
        ("collalgo: figures/1\nefficiency: {pcie: 0}", "between 0.001 and 1"),
        ("collalgo: figures/1\nefficiency: {pcie: 2}", "pcie"),
        ("collalgo: figures/1\nalpha: 1", "unknown key alpha"),
        ("collalgo: figures/1\nnetwork_message: 0", "less than the 3e-07 of others"),
        ("#" * (1 << 16) + "#", "more than 65536 bytes"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path, text, what):
    path = tmp_path / "figures.yaml"
    path.write_text(text)
    with pytest.raises(TopologyError, match=what):
        LinkModel.read(path)


def test_messages_between_hosts_cost_no_less_than_others():
    """Else a message more could lower the price."""
    with pytest.raises(TopologyError, match="network_message of 0"):
        LinkModel(network_message=0.0)
    assert LinkModel(message=0.0, network_message=0.0).network_message == 0
    slow = HostProfile(2e-3, 2e-6, 1e-3, 1e-10, 1e-10, cores=2)
    model = LinkModel.of_host(slow)
    assert model.network_message == model.message == 1e-3


def test_the_commands_read_the_file(mine):
    words = ["simulate", "barrier", "dissemination", "dgx1v", "--figures", str(mine)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "on 8 ranks: " in result.output
    words = ["select", "barrier", "0", "--topology", "dgx1v", "--figures", str(mine)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
