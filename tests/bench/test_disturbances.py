"""The figures of elastic jobs, and the jobs whose steps are read."""

import math

import pytest
from collalgo.bench.disturbances.__main__ import _keep
from collalgo.bench.disturbances.contest import contestants
from collalgo.bench.disturbances.figures import Aim, Phase, figures
from collalgo.bench.disturbances.jobs import Command, Job

from collalgo.base.json_files import read_json

FAST, SLOW = Aim(20.0, 100.0), Aim(5.0)


def test_figures_are_compared_with_their_aims():
    closed = []

    def trials():
        try:
            while True:
                yield [0.010, 0.030, 1.5]
        finally:
            closed.append(True)

    phases = [Phase("first", FAST), Phase("second", SLOW), Phase("third", unit="x")]
    first, second, third = figures("event", phases, "store", "here", trials(), 3)
    assert closed
    assert first.values == pytest.approx([10.0] * 3)
    assert third.values == [1.5] * 3
    assert [one.is_reached for one in (first, second, third)] == [True, False, None]
    late = first._replace(values=[*[10.0] * 19, 500.0])  # only the median is
    assert late.is_reached is False
    assert late.as_row()["p99"] == 500.0
    row = second.as_row()
    assert row["p50"] == pytest.approx(30.0)
    assert (row["trials"], row["aim"]) == (3, [5.0, None])
    assert "p99" not in row  # of so few trials


def test_what_did_not_come_is_no_time():
    trials = iter([[math.inf, math.nan, 1.0], [0.2, math.nan, math.nan]])
    phases = [Phase("late", SLOW), Phase("untold"), Phase("once")]
    late, once = figures("event", phases, "store", "here", (t for t in trials), 2)
    assert (late.phase, once.phase) == ("late", "once")
    row = late.as_row()
    assert (row["p50"], row["most"], row["reached"]) == (None, None, False)
    assert row["values"] == [None, 200.0]
    assert once.as_row()["trials"] == 1


def test_parts_are_written_over_the_same_ones(tmp_path):
    file = tmp_path / "elastic.json"
    _keep(file, {"a": 1, "b": 1})
    _keep(file, {"b": 2})
    assert read_json(file)["parts"] == {"a": 1, "b": 2}


def test_the_steps_of_a_job_are_read():
    shell = 'for t in 1.0 1.25 1.75; do echo "x [$$, 2, $t]"; done; exec sleep 60'
    job = Job([Command(["sh", "-c", shell], {})] * 2)
    try:
        assert job.until(2, 2, 1.5) == 1.75
        assert job.until(2, 2, 0.0) == 1.0
        assert job.longest_step(0.0, 9.0) == 0.5
        with pytest.raises(TimeoutError, match="no 2 workers"):
            job.until(2, 2, 0.0, but=job.steps[0].process, patience=0.0)
        with pytest.raises(TimeoutError):
            job.until(1, 1, 0.0, exactly=True, patience=0.0)
    finally:
        job.end()
    assert [each.wait(9) for each in job.launchers] == [-9, -9]


def test_peers_that_are_not_installed_are_named(capsys, tmp_path):
    lacks_all = tmp_path / "python"
    lacks_all.write_text("#!/bin/sh\nexit 1\n")
    lacks_all.chmod(0o755)
    assert contestants(str(lacks_all)) == []
    told = capsys.readouterr().out.splitlines()
    assert [line.split("cannot import ")[1] for line in told] == [
        "torch: no figures of torchrun",
        "torchft: no figures of torchft",
    ]
