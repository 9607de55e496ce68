"""The figures of elastic jobs, and the jobs whose steps are read."""

import math
import sys
from functools import partialmethod

import pytest
from collalgo.bench.disturbances import __main__ as command, many
from collalgo.bench.disturbances.__main__ import _keep
from collalgo.bench.disturbances.contest import contestants
from collalgo.bench.disturbances.figures import Aim, Figure, Phase, figures
from collalgo.bench.disturbances.jobs import Command, Job, worker_killed
from collalgo.bench.disturbances.members import Member
from collalgo.bench.disturbances.trials import ProcessEnded, TrialFailed, trial

from collalgo.base.json_files import read_json
from collalgo.errors import BootstrapError

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
    first, second, third = figures("event", phases, "store", "here", trials, 5)
    assert closed
    assert first.values == pytest.approx([10.0] * 5)
    assert third.values == [1.5] * 5
    assert second.is_reached is False
    assert [one.is_reached for one in (first, third)] == [None, None]
    row = second.as_row()
    assert row["p50"] == pytest.approx(30.0)
    assert (row["trials"], row["aim"]) == (5, [5.0, None])
    assert "p99" not in row  # of so few trials


def test_both_aims_are_to_be_reached():
    first = Figure("event", "phase", "store", "here", "ms", FAST, [10.0] * 20)
    assert first.is_reached
    late = first._replace(values=[*[10.0] * 19, 500.0])  # only the median is
    assert late.is_reached is False
    assert late.as_row()["p99"] == 500.0


def test_a_median_is_the_middle_of_enough_trials():
    (phase,) = figures(
        "event",
        [Phase("first", SLOW)],
        "store",
        "here",
        lambda: ([t] for t in range(9)),
        6,
    )
    assert phase.summary == {"p50": 2500.0, "most": 5000.0}
    few = phase._replace(values=[1.0, 2.0])
    assert few.summary == {"most": 2.0}
    assert few.is_reached is None


def test_only_parts_over_etcd_need_it(monkeypatch, capsys):
    def without():
        raise BootstrapError("replicated:// needs etcd")

    monkeypatch.setattr(command, "etcd_program", without)
    monkeypatch.setattr(sys, "argv", ["disturbances", "agent", "--trials", "1"])
    monkeypatch.setattr(command.Plan, "agent", lambda _: [])
    command.main()
    assert "1 part in" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["disturbances", "steps", "late", "leader"])
    with pytest.raises(SystemExit, match=r"^late, leader: measured over etcd,"):
        command.main()


def test_an_option_shows_what_it_is_and_its_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["disturbances", "--help"])
    with pytest.raises(SystemExit):
        command.main()
    shown = " ".join(capsys.readouterr().out.split())
    words = "Number of trials of an event; a third of rack, holder (default 30)."
    assert words in shown


def test_each_trial_of_many_agents_closes_its_link(monkeypatch):
    closed = []

    class Link:
        def close(self):
            closed.append(self)

    class FewAgents:
        def __init__(self, _connect, _size):
            self.link = Link()

        def join(self): ...

    monkeypatch.setattr(many, "Agents", FewAgents)
    figures("event", [Phase("first")], "store", "here", many.many, 2)
    assert len(closed) == 2


def test_what_did_not_come_is_no_time():
    trials = (t for t in [[math.inf, math.nan, 1.0], [0.2, math.nan, math.nan]])
    phases = [Phase("late", SLOW), Phase("untold"), Phase("once")]
    late, once = figures(
        "event", phases, "store", "here", lambda: (t for t in trials), 2
    )
    assert (late.phase, once.phase) == ("late", "once")
    row = late.as_row()
    assert (row["most"], row["reached"]) == (None, None)
    assert "p50" not in row
    assert row["values"] == [None, 200.0]
    assert once.as_row()["trials"] == 1


def failing(error, *, after):
    """Trials of which some come, before one fails; and how often they were started."""
    started = []

    def trials():
        started.append(True)
        for number in range(after):
            yield [number / 1e3]
        with trial():
            raise error

    return trials, started


@pytest.mark.parametrize(
    "error", [TimeoutError("no step"), ProcessEnded("member n0 has ended")]
)
def test_a_trial_that_fails_is_infinitely_late_and_others_follow(error, capsys):
    trials, started = failing(error, after=3)
    (phase,) = figures("event", [Phase("first")], "store", "here", trials, 10)
    late = phase.as_row()["values"]
    assert late == [0.0, 1.0, 2.0, None] * 2 + [0.0, 1.0]
    assert len(started) == 3
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "event (here, store): 1 of 10 trials"
    assert told[3] == f"event (here, store): trial 4 failed: {error}"
    assert told[-1] == "event (here, store): 10 of 10 trials"


def test_only_the_phase_that_does_not_come_is_infinitely_late():
    def trials():
        with trial() as times:
            times.append(0.5)
            raise TimeoutError("no step")
        yield times

    phases = [Phase(name) for name in ("first", "second", "third")]
    first, second = figures("event", phases, "store", "here", trials, 1)
    assert (first.phase, first.values) == ("first", [500.0])
    assert (second.phase, second.values) == ("second", [math.inf])


@pytest.mark.parametrize(
    "error", [TimeoutError("etcd has had no leader for 60 s"), RuntimeError("a fault")]
)
def test_a_job_that_does_not_start_ends_the_measurement(error, monkeypatch):
    def trials():
        raise error
        yield []

    def agent(_):
        return figures("event", [Phase("first")], "store", "here", trials, 3)

    monkeypatch.setattr(command.Plan, "agent", agent)
    monkeypatch.setattr(sys, "argv", ["disturbances", "agent"])
    with pytest.raises((SystemExit, RuntimeError), match=str(error)):
        command.main()


def test_a_member_that_ends_or_is_late_is_named():
    ended = Member("", "n7", 1, 1, ["true"])
    late = Member("", "n8", 1, 1, ["sh", "-c", "exec sleep 60"])
    try:
        with pytest.raises(ProcessEnded, match="member n7 has ended"):
            ended.until(1)
        with pytest.raises(TimeoutError, match="member n8 has joined no epoch of 1"):
            late.until(1, timeout=0.05)
    finally:
        ended.end()
        late.end()


def test_an_event_of_which_trials_only_fail_is_left():
    trials, started = failing(TimeoutError("no step"), after=0)
    (phase,) = figures("event", [Phase("first", SLOW)], "store", "here", trials, 10)
    assert phase.values == [math.inf] * 3
    assert len(started) == 3


def test_a_violation_ends_the_measurement():
    trials, _ = failing(AssertionError("two sides"), after=1)
    with pytest.raises(AssertionError, match="two sides"):
        figures("event", [Phase("first")], "store", "here", trials, 10)


def test_figures_are_written_as_they_come(tmp_path, monkeypatch):
    file, figure = tmp_path / "elastic.json", Figure(*"epsw", "ms", SLOW, [1.0])

    def two(_):
        yield figure._replace(store="other")
        (part,) = read_json(file)["parts"].values()
        assert [each["values"] for each in part["figures"]] == [[1.0]]
        yield figure

    monkeypatch.setattr(command.Plan, "agent", two)
    monkeypatch.setattr(sys, "argv", ["disturbances", "agent", "--json", str(file)])
    command.main()
    assert len(read_json(file)["parts"]["agent"]["figures"]) == 2


def test_figures_are_written_over_the_same_ones_alone(tmp_path):
    """A run that is stopped leaves earlier figures of its part for other stores."""
    file = tmp_path / "elastic.json"
    figure = Figure(*"epsw", "ms", SLOW, [1.0]).as_row()
    _keep(file, "late", figure, {"load": 0.5})
    _keep(file, "late", figure | {"store": "etcd"}, {"load": 0.5})
    _keep(file, "hosts", figure, {"load": 0.5})
    _keep(file, "late", figure | {"values": [2.0]}, {"load": 3.0})
    parts = read_json(file)["parts"]
    assert [*parts] == ["late", "hosts"]
    assert parts["hosts"]["environment"] == {"load": 0.5}
    found = [
        (one["store"], one["values"], one["load"]) for one in parts["late"]["figures"]
    ]
    assert found == [("s", [2.0], 3.0), ("etcd", [1.0], 0.5)]


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


def test_workers_that_go_on_without_another_are_measured(monkeypatch):
    """The phase until all make steps again does not come, the one before it does."""
    monkeypatch.setattr(Job, "until", partialmethod(until_three, Job.until))
    shell = 'echo "x [$$, 4, 1.0]"; sleep 1; echo "x [$$, 3, 9999999.0]"; exec sleep 60'
    job = Job([Command(["sh", "-c", shell], {})] * 4)
    try:
        job.until(4, 4, 0.0)
        with pytest.raises(TrialFailed, match="no 4 workers") as failed:
            worker_killed(job, 4, job.steps[0].process)
    finally:
        job.end()
    known, missing, untold = failed.value.of_phases(3)
    assert math.isfinite(known)
    assert math.isinf(missing)
    assert math.isnan(untold)


def until_three(job, until, workers, size, after, **options):
    """Stop to wait for all workers once three of them have made a step."""
    if "but" in options:
        until(job, 3, 3, after, exactly=True)
        options["patience"] = 0.0
    return until(job, workers, size, after, **options)


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
