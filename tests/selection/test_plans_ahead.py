"""Plans made ahead: a job that loses an element prices and plans nothing."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import Topology, select, threads
from collalgo.base import disk_cache
from collalgo.cli.main import main
from collalgo.selection import on_topology
from collalgo.selection.decide import Question, decide
from collalgo.selection.on_topology import TopologyPricer
from collalgo.synthesis import kept_proofs
from collalgo.synthesis.traffic import Traffic
from tests.support.commands import run

MESH = ("plan", "mesh", "dims=2x2", "-c", "allgather", "--size", "1K,1G")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))


def refused(*_, **__):
    raise AssertionError("it is planned again")


@pytest.fixture
def made(monkeypatch):
    """Refuses, once called, all prices of candidates and all plans."""

    def refuse():
        monkeypatch.setattr(on_topology, "cheapest", refused)
        monkeypatch.setattr(Traffic, "represented", refused)
        monkeypatch.setattr(kept_proofs, "prove_once", refused)

    return refuse


def test_failures_are_planned_once_and_shown_with_what_they_cost(made):
    shown = run(*MESH, "--each-failure")
    made()
    assert run(*MESH, "--each-failure") == shown
    row = re.compile(r"(?:host|network) \S+ +(\d+) +(\d+) +(.*)")
    host, link = map(row.match, shown.splitlines()[-3:-1])
    assert host.group(1, 2) == ("4", "3")
    assert "cannot run" in host[3]
    assert link.group(1, 2) == ("4", "4")
    topology = Topology.load("mesh", dims=(2, 2))
    for name in ("host0-host1", "host2-host3"):
        broken = select("allgather", 1 << 30, topology=topology.without(name))
        assert broken.ratio < 1.1
    whole = select("allgather", 1 << 30, topology=topology)
    assert f"{whole.seconds / broken.seconds:.0%}" in link[3]


def test_a_plan_is_proved_once_and_another_anew(made, monkeypatch):
    run("plan", "mesh", "dims=2x3", "-c", "allreduce")
    made()
    pricer = TopologyPricer(Topology.load("mesh", dims=(2, 3)))
    row = decide(Question("allreduce", 1 << 30), pricer).candidate.row
    pricer.prove(row, row.schedule, 0)
    monkeypatch.undo()
    monkeypatch.setattr(kept_proofs, "prove_once", refused)
    for name in ("synthesized(rounds=2)", "synthesized(segments=2)"):
        other = pricer.find("allreduce", name)
        with pytest.raises(AssertionError, match="planned again"):
            pricer.prove(other, other.schedule, 0)


def test_of_equal_elements_one_can_be_planned(made):
    run(*MESH, "--each-failure", "--one-of-equals")
    made()
    topology = Topology.load("mesh", dims=(2, 2))
    select("allgather", 1 << 30, topology=topology.without("host0"))
    with pytest.raises(AssertionError, match="planned again"):
        select("allgather", 1 << 30, topology=topology.without("host3"))


def test_a_partition_names_ranks_that_cannot_be_reached():
    shown = run("plan", "mesh", "dims=3", "-c", "broadcast", "--each-failure")
    assert re.search(r"host host1 +1 +host0 cannot reach host2", shown)
    assert re.search(r"host0-host1 +2 +host0 cannot reach host\[1-2\]", shown)


def test_an_obstacle_is_shown_once_for_all_sizes():
    words = ("plan", "mesh", "dims=3", "-c", "broadcast", "--size", "1K,1M")
    shown = run(*words, "--each-failure")
    assert shown.count("cannot reach host2") == 1
    assert shown.count("and 2 rows with an obstacle, shown above") == 1


def test_a_job_that_replans_after_a_failure_reads_its_choices(made):
    size, server = 2, Topology.load("cpu2s")
    words = ("plan", "cpu2s", "--per-host", str(size), "-c", "allreduce")
    shown = run(*words, "-c", "allgather", "--each-failure")
    assert re.search(r"core host0/core0 +2 +2 ", shown)

    def each(comm):
        comm.replan(server)
        comm.replan(server.without("host0/core1"))
        assert (comm.allreduce(np.ones(1000)) == size).all()
        return comm.select("allreduce", 1 << 30).seconds

    made()
    assert len(set(threads(each, size, timeout=60))) == 1


def test_an_interrupt_leaves_whole_files_only(monkeypatch):
    keep, count = disk_cache.keep, []

    def interrupted(*arguments):
        keep(*arguments)
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(disk_cache, "keep", interrupted)
    with pytest.raises(SystemExit, match="130"):
        main([*MESH, "--each-failure"])
    monkeypatch.setattr(disk_cache, "keep", keep)
    files = [path for path in disk_cache.folder().rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not [path for path in files if path.name.endswith("partial")]
    run(*MESH)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--per-host", "65"), "host0 has 32 cores but 65 ranks"),
        (("dgx1v", "--per-host", "2"), "dgx1v has none; leave it out to plan for its"),
        (("-c", "broadcast", "--root", "64"), "there is no rank 64 to be the root"),
        (("-c", "allgather", "--root", "1"), "allgather has no root"),
        (("--per-host", "1", "--figures", "{figures}"), "leave --figures out"),
    ],
)
def test_what_cannot_be_planned_is_refused(words, reason, tmp_path):
    figures = tmp_path / "figures.yaml"
    figures.write_text("collalgo: figures/1\nmessage: 1.0e-7\n")
    filled = [word.format(figures=figures) for word in words]
    machine = () if words[:1] == ("dgx1v",) else ("cpu2s",)
    found = CliRunner().invoke(main, ["plan", *machine, *filled])
    assert found.exit_code
    assert reason in " ".join(found.output.replace("\u2502", " ").split())


def test_without_a_cache_nothing_is_planned(monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", "off")
    found = CliRunner().invoke(main, MESH)
    assert found.exit_code == 2
    assert "keeps no plans" in found.output
