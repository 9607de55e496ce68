"""The start of empty jobs: what is run, and what is reported of it."""

import sys

from click.testing import CliRunner
from collalgo.bench import start
from collalgo.bench.cli import main


def only(monkeypatch, *jobs):
    monkeypatch.setattr(start, "jobs", lambda ranks: iter(jobs))


def test_each_rank_reports_its_phases(monkeypatch):
    only(monkeypatch, next(start.jobs(2)))
    (found,) = start.measure_starts(2, 1)
    assert len(found.seconds) == 1
    assert len(found.phases) == 2
    for phases in found.phases:
        assert len(phases) == len(start.PHASES)
        assert min(phases) > 0
        assert sum(phases) < found.seconds[0]


def test_jobs_run_in_turn_and_are_shown_with_median_and_least(monkeypatch):
    idle = start.Job("idle", (sys.executable, "-c", ""))
    only(monkeypatch, idle, idle._replace(name="the same"))
    shown = CliRunner().invoke(main, ["start", "--runs", "2"])
    assert shown.exit_code == 0, shown.output
    rows = [line.split() for line in shown.output.splitlines()]
    assert ["job", "median", "least"] in rows
    for name in ("idle", "same"):
        (figures,) = [row[-2:] for row in rows if row[-3:-2] == [name]]
        assert 0 < int(figures[1]) <= int(figures[0])


def test_a_job_that_fails_is_named_with_what_it_said(monkeypatch):
    bad = start.Job("bad", (sys.executable, "-c", "raise SystemExit('no luck')"))
    only(monkeypatch, bad)
    shown = CliRunner().invoke(main, ["start"])
    assert shown.exit_code == 1
    assert "bad ended with 1: no luck" in shown.output


def test_without_an_mpi_only_our_jobs_are_run(monkeypatch):
    monkeypatch.setattr(start, "find_spec", lambda name: None)
    found = list(start.jobs(3))
    assert [job.name for job in found] == ["collalgo run: init", "collalgo run: NumPy"]
    assert all(job.line[4:6] == ("-n", "3") for job in found)


def test_the_phases_are_given_as_medians():
    found = start.Start("job", [1.0], [(0.1, 0.2, 0.3), (0.2, 0.3, 0.001)] * 2)
    assert start.phases_in_words(found) == (
        "in a rank of job: import NumPy 150 ms, import collalgo 250 ms, init 150 ms"
    )
