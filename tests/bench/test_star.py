"""The race between hosts on one switch, at several link rates."""

import json
import math
import signal
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from collalgo.bench.cluster import cli
from collalgo.bench.cluster.cli import main
from collalgo.bench.cluster.kernel import ClusterError
from collalgo.bench.cluster.layout import layout_of_file
from collalgo.bench.cluster.running import run
from collalgo.bench.cluster.star import Times, description, star, table_rows, times_in

from docs import fast_links
from tests.support.clusters import needs_root


def test_the_description_is_a_cluster_of_these_hosts_and_this_rate(tmp_path):
    file = tmp_path / "star.yaml"
    file.write_text(description(3, 2, 40))
    layout = layout_of_file(file)
    assert layout.slots == {"h0": 2, "h1": 2, "h2": 2}
    assert [cable.bytes_per_second for cable in layout.cables] == [5e9] * 3


def row(algorithm, seconds, chosen=False):
    return {
        "collective": "allreduce", "nbytes": 8, "algorithm": algorithm,
        "seconds": seconds, "chosen": chosen,
    }  # fmt: skip


def test_peers_of_other_races_are_scaled_by_collalgo_in_theirs():
    rows = [
        row("ring", [1.0, 2.0, 9.0], chosen=True),
        row("MPICH 5.0.2", [3.0]),
        row("ring", [4.0], chosen=True),
        row("Open MPI 5.0.11", [12.0]),
        row("gloo of torch 2.13", [40.0]),
    ]
    peers = {"MPICH 5.0.2": 3.0, "Open MPI 5.0.11": 6.0, "gloo": 20.0}
    assert list(times_in(rows)) == [Times("allreduce", 8, 2.0, peers)]


ONE = Times("broadcast", 1 << 20, 2e-3, {"gloo": 5e-3})


@pytest.mark.parametrize(("rate", "word"), [(10.0, "10 Gbit/s"), (math.inf, "unlim")])
def test_a_row_names_the_rate_of_its_links(rate, word):
    (row,) = table_rows(rate, [ONE])
    assert row.startswith(f"| {word}")
    assert row.endswith("| broadcast | 1 MiB | 2 ms (gloo 2.50) |")


def test_a_race_keeps_the_times_of_each_rate_for_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "race_at", lambda *_: [ONE])
    file = tmp_path / "race.json"
    words = ["race", "--rates", "10,inf", "--json", str(file)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    kept = json.loads(file.read_text())
    assert (kept["hosts"], kept["ranks"]) == (2, 1)
    assert [row["rate"] for row in kept["rows"]] == [10, None]
    assert len(kept["loads"]) == 2
    assert [one.ratio for one in fast_links.ratios(kept)] == [2.5, 2.5]
    monkeypatch.setattr(fast_links, "RESULTS", tmp_path)
    monkeypatch.setattr(fast_links, "FILES", "race.json")
    assert "| 10 Gbit/s | gloo | 2.50 | 2.50 |" in fast_links.page()
    assert "| unlimited | gloo | 2.50 | 2.50 |" in fast_links.page()
    loads = ", ".join(f"{load:.0f}" for load in kept["loads"])
    assert f"_Commit {kept['environment']['commit'][:8]}; load {loads}._" in (
        fast_links.page()
    )


def test_a_race_names_the_engine_of_collalgo(monkeypatch, tmp_path):
    asked, file = [], tmp_path / "race.json"

    def run_with(*_, environment, **__):
        asked.append(environment)
        raise ClusterError("that is enough")

    @contextmanager
    def hosts(folder, *_others):
        yield None, folder / "file"

    monkeypatch.setattr("collalgo.bench.cluster.star.star", hosts)
    monkeypatch.setattr("collalgo.bench.cluster.environments.run", run_with)
    for words in ((), ("--engine", "ucx")):
        assert CliRunner().invoke(main, ["race", *words]).exit_code == 1
    assert asked == [{"COLLALGO_ENGINE": "mpi"}, {"COLLALGO_ENGINE": "ucx"}]
    monkeypatch.setattr(cli, "race_at", lambda *_: [ONE])
    words = ["race", "--rates", "10", "--engine", "ucx", "--json", str(file)]
    assert CliRunner().invoke(main, words).exit_code == 0
    monkeypatch.setattr(fast_links, "RESULTS", tmp_path)
    monkeypatch.setattr(fast_links, "FILES", "race.json")
    assert "## 2 hosts of 1 rank over UCX, 1 race" in fast_links.page()


def test_the_page_counts_the_cells_in_which_a_peer_is_faster_in_all_races():
    """The ratio of the best race counts, as others may have been disturbed."""
    slower = ONE._replace(peers={"gloo": 3e-3, "MPICH": 1e-3})
    rows = [{"rate": None, **slower._asdict()}]
    first = list(fast_links.ratios({"rows": rows}))
    found = fast_links._means(first)
    assert "1.50 over gloo, 0.50 over MPICH." in found
    assert "1 of 2 cells, the lowest 0.50" in found
    again = [one._replace(ratio=one.ratio * 2) for one in first]
    assert "0 of 2 cells, the lowest 1.00" in fast_links._means([*first, *again])


def test_a_table_by_size_leaves_out_what_did_not_run():
    times = [ONE, ONE._replace(collective="alltoall", nbytes=16)]
    rows = fast_links.ratios(
        {"rows": [{"rate": 10, **each._asdict()} for each in times]}
    )
    table = list(fast_links._table(list(rows), fast_links.BY_SIZE))
    assert table[2:] == [
        "| 16 B | gloo |  | 2.50 | 2.50 |",
        "| 1 MiB | gloo | 2.50 |  | 2.50 |",
    ]


def test_rates_before_one_that_fails_are_shown(monkeypatch):
    def one_rate(_hosts, _ranks, rate, *_others):
        if rate == 40:
            raise ClusterError("the switch burns")
        return [ONE]

    monkeypatch.setattr(cli, "race_at", one_rate)
    done = CliRunner().invoke(main, ["race", "--rates", "10,40,100"])
    assert done.exit_code == 1
    assert "| 10 Gbit/s | broadcast | 1 MiB |" in done.output
    assert "Error: the switch burns" in done.output


def test_a_misspelt_collective_is_refused_before_the_hosts_are_made():
    done = CliRunner().invoke(main, ["race", "-c", "broadcats"])
    assert done.exit_code == 2
    assert "'broadcats' is not one of 'allreduce'" in done.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_race_that_is_stopped_removes_its_hosts(monkeypatch, number):
    removed = []

    @contextmanager
    def hosts(folder, *_others):
        try:
            yield None, folder / "file"
        finally:
            signal.raise_signal(signal.SIGTERM)  # again, which changes nothing
            signal.raise_signal(signal.SIGHUP)
            removed.append(folder)

    monkeypatch.setattr("collalgo.bench.cluster.star.star", hosts)
    monkeypatch.setattr(
        "collalgo.bench.cluster.environments.run",
        lambda *_, **__: signal.raise_signal(number),
    )
    before = signal.getsignal(number)
    done = CliRunner().invoke(main, ["race", "--rates", "1", "--mpi", sys.prefix])
    assert f"ended by {number.name}" in done.output
    assert len(removed) == 1
    assert not removed[0].exists()
    assert signal.getsignal(number) == before


@needs_root
@pytest.mark.deadline
def test_a_command_that_does_not_end_is_killed_and_named(tmp_path):
    with star(tmp_path, 2, 1, math.inf) as (layout, _):
        limit = r"sleep 1000 was killed at its time limit of 0\.5 s"
        with pytest.raises(ClusterError, match=limit):
            run(layout, ["sleep", "1000"], timeout=0.5)


@pytest.mark.parametrize("rates", ["fast", "1,0", "nan", "-1"])
def test_rates_are_numbers_above_0(rates):
    done = CliRunner().invoke(main, ["race", "--rates", rates])
    assert done.exit_code == 2
    assert "rate" in done.output


@pytest.mark.slow
@needs_root
def test_a_race_makes_its_hosts_and_compares_with_mpi():
    done = CliRunner().invoke(
        main, ["race", "--rates", "10,inf", "-c", "broadcast", "-s", "8"]
    )
    assert done.exit_code == 0, done.output
    assert "| broadcast | 8 B |" in done.output
    assert done.output.count("MPICH") == 2
