"""The namespaces of a cluster: only its own are taken down, and all of these."""

import pytest
from click.testing import CliRunner
from collalgo.bench.cluster import kernel
from collalgo.bench.cluster.cli import main
from collalgo.bench.cluster.layout import Layout
from collalgo.bench.cluster.running import run

from tests.support.clusters import FILES, layout, needs_root

pytestmark = pytest.mark.deadline


class Namespaces:
    """The namespaces of a kernel, as ``ip netns`` has them."""

    def __init__(self, *names, fails_at=""):
        self.names = list(names)
        self.fails_at = fails_at
        self.aliases = {}

    def run(self, *command, given=""):
        if command[:3] == ("ip", "netns", "list"):
            return "".join(f"{name} (id: 1)\n" for name in self.names)
        if command[:3] == ("ip", "netns", "add"):
            self.names.append(command[3])
        if command[:3] == ("ip", "netns", "del"):
            self.names.remove(command[3])
        if "alias" in command:
            self.aliases[command[3]] = command[-1]
        if command[:2] == ("ip", "-n"):
            return f"1: lo: alias {self.aliases.get(command[2], '')}"
        if self.fails_at and self.fails_at in command:
            raise kernel.ClusterError("no")
        return ""


OTHERS = ["collalgo-star-2", "collalgo-star-2-h0", "collalgo-starfish", "mine"]
NUMBERS_OF_HOSTS = pytest.mark.parametrize("hosts", [1, 2, 3, 8])


def star(hosts):
    return Layout("star", {f"h{host}": 1 for host in range(hosts)})


@pytest.fixture
def namespaces(monkeypatch):
    """Namespaces of other clusters and programs, which the kernel is said to have."""
    there = Namespaces(*OTHERS)
    monkeypatch.setattr(kernel, "check_possible", lambda: None)
    monkeypatch.setattr(kernel, "_run", there.run)
    monkeypatch.setattr(kernel, "_settle", lambda *_: None)
    return there


@NUMBERS_OF_HOSTS
def test_a_cluster_takes_only_its_own_namespaces_down(hosts, namespaces):
    kernel.up(star(hosts))
    assert len(namespaces.names) == len(OTHERS) + hosts + 1
    with pytest.raises(kernel.ClusterError, match="is up already"):
        kernel.up(star(hosts))
    for _ in range(2):
        kernel.down(star(hosts))
        assert namespaces.names == OTHERS


@NUMBERS_OF_HOSTS
def test_a_namespace_of_a_host_that_belongs_to_another_stays(hosts, namespaces):
    namespaces.names.append("collalgo-star-h0")
    with pytest.raises(kernel.ClusterError, match="exists already; rename the"):
        kernel.up(star(hosts))
    kernel.down(star(hosts))
    assert namespaces.names == [*OTHERS, "collalgo-star-h0"]


@NUMBERS_OF_HOSTS
def test_a_cluster_that_does_not_come_up_leaves_nothing(hosts, namespaces):
    namespaces.fails_at = "lo"
    with pytest.raises(kernel.ClusterError, match="no"):
        kernel.up(star(hosts))
    assert namespaces.names == OTHERS


def test_hosts_that_a_file_had_when_its_cluster_was_created_are_taken_down(namespaces):
    kernel.up(star(4))
    assert kernel.clusters() == ["star"]
    kernel.down(star(2))
    assert namespaces.names == OTHERS
    assert kernel.clusters() == []


def test_a_cluster_is_taken_down_by_its_name(namespaces):
    kernel.up(star(2))
    with pytest.raises(kernel.ClusterError, match=r"torus is not up; .* up: star"):
        kernel.check_is_up(Layout("torus", {}))
    done = CliRunner().invoke(main, ["list"])
    assert done.output == "star\n"
    done = CliRunner().invoke(main, ["down", "torus"])
    assert done.exit_code == 1
    assert "torus is not up; clusters that are up: star" in done.output
    done = CliRunner().invoke(main, ["down", "star"])
    assert done.exit_code == 0, done.output
    assert namespaces.names == OTHERS


def test_the_name_is_asked_for_if_the_file_has_been_damaged(namespaces, tmp_path):
    file = tmp_path / "star.yaml"
    file.write_text("links: [")
    done = CliRunner().invoke(main, ["down", str(file)])
    assert done.exit_code == 1
    assert "or pass the name of the cluster (collalgo cluster list)" in done.output


def test_a_link_of_a_cluster_that_is_not_up_is_not_cut(namespaces):
    for command in ("cut", "mend"):
        words = [command, str(FILES / "star.yaml"), "h0/nic0"]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 1
        assert "is not up; clusters that are up: none" in done.output


def test_a_cluster_without_a_host_of_its_file_runs_nothing(namespaces):
    kernel.up(star(2))
    with pytest.raises(kernel.ClusterError, match="is up without h2, h3 of its file;"):
        run(star(4), ["true"])


@needs_root
def test_a_host_that_has_left_the_file_is_taken_down(cluster):
    plan = cluster("ring")
    assert plan.name in kernel.clusters()
    kernel.down(Layout(plan.name, {"h0": 1, "h9": 1}))
    there = kernel._run("ip", "netns", "list")
    assert kernel.namespace(layout("ring")) not in there
