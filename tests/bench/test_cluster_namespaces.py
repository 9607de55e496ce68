"""The namespaces of a cluster: only its own are taken down, and all of these."""

import pytest
from collalgo.bench.cluster import kernel
from collalgo.bench.cluster.layout import Layout

pytestmark = pytest.mark.deadline


class Namespaces:
    """The namespaces of a kernel, as ``ip netns`` has them."""

    def __init__(self, *names, fails_at=""):
        self.names = list(names)
        self.fails_at = fails_at

    def run(self, *command, given=""):
        if command[:3] == ("ip", "netns", "list"):
            return "".join(f"{name} (id: 1)\n" for name in self.names)
        if command[:3] == ("ip", "netns", "add"):
            self.names.append(command[3])
        if command[:3] == ("ip", "netns", "del"):
            self.names.remove(command[3])
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
