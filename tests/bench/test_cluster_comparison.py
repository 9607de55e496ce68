"""Comparisons on the cluster of a file, and jobs in which a link is cut."""

import json
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import pytest
from click.testing import CliRunner
from collalgo.bench.cluster import cli, comparison, replanning
from collalgo.bench.cluster.cli import main
from collalgo.bench.cluster.kernel import ClusterError
from collalgo.bench.cluster.layout import layout_of_file, routes_over
from collalgo.bench.cluster.race import ALWAYS, Extent
from collalgo.bench.cluster.replanning import Event, Trial

from collalgo import Topology, select
from collalgo.cost.routing import Routes
from docs import uneven_clusters
from tests.support.clusters import FILES, layout


def allreduce(name):
    return select("allreduce", 1 << 24, topology=Topology.read(FILES / f"{name}.yaml"))


@pytest.fixture(scope="module")
def mesh():
    return allreduce("unequal_mesh")


def test_the_cheapest_and_all_near_them_are_measured_once_each(mesh):
    found = list(Extent(most=3, near=2.1, rounds=1).contestants(mesh))
    names = [one.name.partition("(")[0] for one in found]
    assert len(names) == len({*names}) > 3
    assert found[0].name == mesh.algorithm
    assert all(one.seconds <= 2.1 * mesh.seconds for one in found)
    fewer = list(Extent(most=3, near=1, rounds=1).contestants(mesh))
    assert fewer == found[:3]


def test_some_are_always_measured_unless_one_is_asked_for(mesh):
    found = list(Extent(most=2, near=0, rounds=1).contestants(mesh))
    names = {one.name.partition("(")[0] for one in found}
    assert names >= {*ALWAYS["allreduce"]}
    assert len(list(Extent(1, 0, 1).contestants(mesh))) == 1


def test_a_contestant_runs_in_the_order_in_which_it_was_priced():
    """The price of a call by its name is that of the candidate."""
    topology = Topology.read(FILES / "unequal_mesh.yaml")
    found = select("allreduce", 1 << 24, topology=topology)
    ordered = [one for one in found.able if one.order][:3]
    assert ordered
    for one in ordered:
        name = found.call_name(one)
        assert "order=" in name
        again = select("allreduce", 1 << 24, topology=topology, algorithm=name)
        assert again.seconds == pytest.approx(one.seconds)


def width(graph, path):
    """The rate of the narrowest link on a path."""
    return min(graph.edges[ends]["rate"] for ends in pairwise(path))


@pytest.mark.parametrize("name", ["ring", "slow_ring", "torus", "unequal_mesh"])
def test_hops_are_those_of_all_shortest_paths_the_widest_first(name):
    plan = layout(name)
    host_of = {end.address.partition("/")[0]: end.namespace
               for cable in plan.cables for end in cable.ends}  # fmt: skip
    graph = nx.Graph()
    for cable in plan.cables:
        hosts = (end.namespace for end in cable.ends)
        graph.add_edge(*hosts, rate=cable.bytes_per_second)
    for (start, target), hops in plan.routes.items():
        widths = {}
        for path in nx.all_shortest_paths(graph, start, target):
            widths[path[1]] = max(widths.get(path[1], 0), width(graph, path))
        taken = [host_of[address] for _, address in hops]
        assert {*taken} == {*widths}
        found = [widths[hop] for hop in taken]
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("name", ["ring", "slow_ring", "torus", "unequal_mesh"])
def test_each_hop_leads_nearer(name):
    plan = layout(name)
    host_of = {end.address.partition("/")[0]: end.namespace
               for cable in plan.cables for end in cable.ends}  # fmt: skip
    assert plan.routes == routes_over(plan.cables)
    for (start, target), hops in plan.routes.items():
        for _, address in hops:
            here, length = host_of[address], 1
            while here != target:
                here, length = host_of[plan.routes[here, target][0][1]], length + 1
                assert length < len(plan.hosts)
            assert start != target


def test_of_two_shortest_paths_that_without_the_slow_link_comes_first():
    routes = layout("slow_ring").routes  # h3 - h0 is slow
    assert [name for name, _ in routes["h0", "h2"]] == ["eth1", "eth0"]
    assert [name for name, _ in routes["h1", "h3"]] == ["eth1", "eth0"]


def entry(algorithm, seconds, predicted=0.0, chosen=False):
    return {
        "collective": "allreduce", "nbytes": 1 << 24, "algorithm": algorithm,
        "predicted": predicted, "bound": 1.0, "seconds": seconds, "chosen": chosen,
    }  # fmt: skip


RACES = [
    {"load": 2.0, "entries": [
        entry("synthesized(rounds=8)", [1.0, 1.1], 1.0, chosen=True),
        entry("ring", [1.5, 1.6], 1.4),
        entry("gloo of torch 2", [3.0]),
    ]},
    {"load": 5.0, "entries": [
        entry("synthesized(rounds=8)", [1.2], 1.0, chosen=True),
        entry("Open MPI 5", [2.1]),
    ]},
]  # fmt: skip


def test_a_comparison_is_shown_and_kept_for_the_page(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(cli, "compare", lambda *given: asked.append(given) or RACES)
    file, results = FILES / "unequal_mesh.yaml", tmp_path / "uneven_mesh.json"
    words = ["compare", str(file), "--cut", "h0/nic0", "-c", "allreduce"]
    done = CliRunner().invoke(main, [*words, "--json", str(results)])
    assert done.exit_code == 0, done.output
    assert asked[0][:2] == (file, "h0/nic0")
    assert "| unequal_mesh without h0/nic0 | allreduce | synthesized |" in done.output
    kept = json.loads(results.read_text())
    assert kept["loads"] == [2, 5]
    (outcome,) = cli.outcomes_in(kept)
    assert outcome.peers["Open MPI 5"] / outcome.seconds == pytest.approx(2.1 / 1.2)
    row = uneven_clusters._row(outcome, "2 to 5")
    cells = "| 1050 ms | 1.050 | 1000 ms | 1.48 |  | 1.75 | 2.86 | 2 to 5 |"
    assert row.endswith(cells)


@pytest.mark.parametrize("size", ["1M,16M", "1K..1M", "0", "16 apples"])
def test_a_comparison_is_of_one_size_which_is_checked_first(size, monkeypatch):
    monkeypatch.setattr(cli, "compare", lambda *_: pytest.fail("the cluster is up"))
    words = ["compare", str(FILES / "unequal_mesh.yaml"), "-s", size]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert "Invalid value for '-s'" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cut", "h0/nic0", "--cut", "h1/nic0"], "2 links are given (h0/nic0, h1/ni"),
        (["--mpi", "/"], "/ has no bin/python; name an environment"),
        (["--near", "nan"], "nan is not a finite number"),
    ],
)
def test_options_of_a_comparison_are_checked_first(words, message, monkeypatch):
    monkeypatch.setattr(cli, "compare", lambda *_: pytest.fail("the cluster is up"))
    words = ["compare", str(FILES / "unequal_mesh.yaml"), *words]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize("name", ["star", "unequal_mesh"])
def test_the_cluster_of_a_link_that_cannot_be_cut_is_taken_down(name, monkeypatch):
    calls = []
    for each in ("up", "down", "set_link"):
        record = lambda *_, each=each, **__: calls.append(each)  # noqa: E731
        monkeypatch.setattr(comparison, each, record)
    monkeypatch.setattr(comparison, "reroute", lambda *_: 1 / 0)
    with (
        pytest.raises(ZeroDivisionError),
        comparison.cluster_of(FILES / f"{name}.yaml", "h0/nic0"),
    ):
        pass
    assert calls == ["up", "set_link", "down"]


def test_the_topology_of_a_cut_link_lacks_it(monkeypatch):
    for each in ("up", "down", "set_link", "reroute"):
        monkeypatch.setattr(comparison, each, lambda *_, **__: None)
    file = FILES / "unequal_mesh.yaml"
    with comparison.cluster_of(file, "h0/nic0") as (plan, described):
        assert len(plan.cables) == 6
        assert len(layout_of_file(described).cables) == 5
    with comparison.cluster_of(file) as (_, described):
        assert described == file


@pytest.mark.parametrize("error", [SystemExit, ClusterError])
def test_a_job_is_ended_by_an_error_of_the_caller(error, monkeypatch, tmp_path):
    mark, script = tmp_path / "mark", "echo begun; sleep 1; touch {}"
    command = ["sh", "-c", script.format(mark)]
    monkeypatch.setattr(
        replanning, "agent_of", lambda _: nullcontext(tmp_path / "agent")
    )
    monkeypatch.setattr(replanning, "command_line", lambda *_: command)
    file, event = FILES / "ring.yaml", Event("h0/nic0", 0.05)
    with (
        pytest.raises(error),
        replanning._started(layout("ring"), file, event, {}) as lines,
    ):
        assert next(lines) == "begun\n"
        raise error("the link burns")
    assert not mark.exists()


def test_the_parts_of_a_job_follow_each_other():
    job = {
        "begins": [0, 2, 4, 6, 10, 12], "ends": [1, 3, 5.5, 9, 11.5, 12.25],
        "replanned": 10, "wrong": 0, "before": "ring", "after": "synthesized",
    }  # fmt: skip
    found = SimpleNamespace(**Trial.of(7.0, job)._asdict())
    assert (found.whole, found.cut_after, found.interrupted) == (1.5, 1.0, 2.0)
    assert (found.replan, found.first, found.second) == (1.0, 1.5, 0.75)


@pytest.mark.parametrize(
    ("name", "cut"), [("slow_ring", ()), ("unequal_mesh", ("h0/nic0-h1/nic0",))]
)
def test_prices_follow_the_routes_of_hosts_that_forward(name, cut, tmp_path):
    """Over the widest of the shortest ways, and no part of a message over another."""
    topology = Topology.read(FILES / f"{name}.yaml").without(*cut)
    topology.write(tmp_path / "rest.yaml")
    plan = layout_of_file(tmp_path / "rest.yaml")
    cores = [core.id for core in topology.devices("core")]
    priced = Routes(topology, cores)
    links = {end.address.partition("/")[0]: (cable.link, end.namespace)
             for cable in plan.cables for end in cable.ends}  # fmt: skip
    for (start, target), hops in plan.routes.items():
        taken, here = [], start
        while here != target:
            link, here = links[plan.routes[here, target][0][1]]
            taken.append(link)
        route = priced.route(f"{start}/core0", f"{target}/core0")
        found = [priced.directed_link(one)[0] for one in route.directed_links]
        crossed = {" - ".join(one.ends) for one in found if one.kind == "network"}
        assert crossed == {*taken}, (start, target, hops)
        assert set(route.parts) == {1.0}
