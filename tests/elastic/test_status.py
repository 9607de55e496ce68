"""What those see who look at a job: its status, its events, and its timeline."""

import json
import os
import pickle
import re
import socket
import subprocess
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from collalgo.base.environment import JOB, RENDEZVOUS, SECRET
from collalgo.bootstrap.store.server import Server
from collalgo.cli.main import main
from collalgo.elastic import history, jobs_here
from collalgo.elastic.backends import rendezvous
from collalgo.elastic.history import PastEpoch
from collalgo.elastic.member_words import (
    gone_in_words,
    joined_in_words,
    lost_in_words,
)
from collalgo.elastic.obstacles import MemberExcluded
from collalgo.elastic.status import event_of_epoch, follow, status
from collalgo.elastic.timeline import EventsError, draw, read_events
from tests.elastic.conftest import FULL, QUICK
from tests.elastic.test_rendezvous import all_join, fail
from tests.support.store_clients import until


def noted(store, epochs):
    """Wait until the store has this number of epochs: all of them."""
    until(lambda: len(history.history(store)) == epochs)
    return history.history(store)


def test_a_status_shows_who_is_a_member_and_who_waits(node, new_store):
    store = new_store()
    assert status(store).members == ()
    nodes = [node(name, FULL) for name in "abc"]
    first = all_join(*nodes)[0]
    found = status(store)
    assert (found.epoch, found.members) == (1, first.members)
    assert found.at_work == first.members
    assert found.why == "the job has begun"
    assert found.leader in "abc"
    assert (found.waiting, found.lost, found.failures) == ((), (), ())


def test_a_status_shows_who_was_lost_and_why_a_job_goes_on(node, new_store):
    store = new_store()
    nodes = [node(name, FULL) for name in "abc"]
    all_join(*nodes)
    noted(store, 1)
    fail(nodes.pop(0))
    until(lambda: status(store).lost == ("a",))
    assert [status(store).state(name) for name in "abc"] == ["lost", *["at work"] * 2]
    second = all_join(*nodes)[0]
    past = noted(store, 2)
    found = status(store)
    assert found.members == second.members
    assert found.failures == (past[1],)
    assert past[1].why == "lost: a"
    nodes[0].exclude("c", "it fails again and again")
    until(lambda: status(store).excluded == {"c": "it fails again and again"})
    nodes[0].close("done")
    assert status(store).closed == "done"


def test_events_are_told_as_they_come(node, new_store):
    store, told = new_store(), []
    follow(store, told.append)
    nodes = [node(name) for name in "ab"]
    members = all_join(*nodes)[0].members
    until(lambda: told)
    assert told[0]["event"] == "epoch"
    assert told[0]["members"] == list(members)
    fail(nodes.pop())
    until(lambda: told[1:])
    assert (told[1]["event"], told[1]["lost"]) == ("lost", ["b"])
    nodes[0].exclude("b", "x")
    nodes[0].close("done")
    until(lambda: told[3:])
    assert told[2] | {"time": 0} == {
        "event": "excluded",
        "reasons": {"b": "x"},
        "time": 0,
    }
    assert told[3] | {"time": 0} == {"event": "closed", "reason": "done", "time": 0}
    assert json.loads(json.dumps(told)) == told


def test_old_epochs_are_dropped(node, new_store, monkeypatch):
    monkeypatch.setattr(history, "KEPT", 2)
    alone = node("a", replace(QUICK, least=1, most=1))
    for _ in range(4):
        alone.join()
    store = new_store()
    until(lambda: [each.epoch for each in history.history(store)] == [3, 4])


def test_lost_members_are_named_if_they_are_known():
    assert lost_in_words([]) == "a member was lost"
    assert lost_in_words(["rank 0"]) == "rank 0 was lost"
    assert lost_in_words(["rank 0", "rank 2"]) == "rank 0 and rank 2 were lost"
    many = lost_in_words([f"rank {rank}" for rank in range(20)])
    assert many.endswith("rank 15 and 4 more were lost")
    assert joined_in_words(["rank 0"]) == "rank 0 has joined"
    assert joined_in_words(["rank 0", "rank 2"]) == "rank 0 and rank 2 have joined"


def test_excluded_members_are_not_lost_ones():
    exclusions = {"rank 1": "its fan is broken"}
    alone = gone_in_words(["rank 1"], exclusions)
    assert alone == "rank 1 was excluded (its fan is broken)"
    both = gone_in_words(["rank 0", "rank 1"], exclusions)
    assert both == f"rank 0 was lost, {alone}"
    assert gone_in_words([], exclusions) == "a member was lost"
    many = {f"rank {rank}": "x" for rank in range(20)}
    assert gone_in_words([*many], many).endswith(", 4 more were excluded")


def test_an_exclusion_is_no_failure_of_a_job(node, new_store):
    store = new_store()
    nodes = [node(name, FULL) for name in "abc"]
    all_join(*nodes)
    noted(store, 1)
    nodes[0].exclude("c", "its fan is broken")
    until(lambda: status(store).lost == ("c",))
    assert status(store).state("c") == "excluded"
    with pytest.raises(MemberExcluded, match="it is excluded") as refused:
        nodes.pop().join()
    error = refused.value
    assert (error.name, error.reason) == ("c", "its fan is broken")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    all_join(*nodes)
    assert noted(store, 2)[1].why == "excluded: c"
    assert status(store).failures == ()


# ---- the command


@pytest.fixture
def job(monkeypatch):
    """A job with one member, which the command finds."""
    with closing(Server(b"secret", "127.0.0.1")) as server:
        url = f"collalgo://127.0.0.1:{server.port}"
        settings = replace(QUICK, least=1, most=2)
        joined = rendezvous(url, "j", settings, "rank 0", b"secret")
        joined.join()
        here = jobs_here.JobHere(url, "j", b"secret", os.getpid())
        monkeypatch.setattr("collalgo.cli.elastic.jobs_here", lambda _: [here])
        yield joined
        joined.shutdown()


def run(*words, code=0):
    done = CliRunner().invoke(main, ["elastic", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


def test_the_command_shows_a_job_and_changes_it(job, tmp_path):
    noted(job.store, 1)
    assert "epoch 1 with 1 member\n" in run("status")
    host, process = socket.gethostname(), os.getpid()
    row = rf"0\s+rank 0\s+{re.escape(host)}:{process}\s+at work\n"
    assert re.search(row, run("status"))
    assert json.loads(run("status", "--json"))["members"] == ["rank 0"]
    run("exclude", "rank 7", "--reason", "it is slow")
    assert "excluded: rank 7 (it is slow)\n" in run("status")
    run("readmit", "rank 7")
    assert "excluded" not in run("status")
    events = tmp_path / "events.jsonl"
    events.write_text(run("events"))
    run("timeline", events, "-o", tmp_path / "t.svg")
    assert "rank 0" in (tmp_path / "t.svg").read_text()
    job.close("done")
    assert json.loads(run("events", "--follow").splitlines()[-1])["event"] == "closed"
    assert "closed: done" in run("status")


def test_names_that_no_member_has_are_reported(job):
    noted(job.store, 1)
    done = CliRunner().invoke(main, ["elastic", "exclude", "rank 7"])
    assert "warning: rank 7 is not a member yet (members: rank 0)" in done.stderr
    assert "rank 7 is excluded" in done.stdout
    assert "29546 is not a member but a number" in run("exclude", 29546, code=1)
    assert "rank 9 is not excluded" in run("readmit", "rank 9", code=1)


def test_the_job_of_another_folder_must_be_named(job, tmp_path, monkeypatch):
    noted(job.store, 1)
    monkeypatch.setattr("collalgo.cli.unnamed_job.Path.cwd", lambda: tmp_path)
    assert "was not started in this folder" in run("status", code=1)
    assert "epoch 1 with 1 member\n" in run("status", os.getpid())
    assert "epoch 1 with 1 member\n" in run("status", "--id", "j")


def test_a_job_that_is_not_here_or_one_of_several_must_be_named(monkeypatch):
    monkeypatch.setattr("collalgo.cli.elastic.jobs_here", lambda _: [])
    assert "no elastic job" in run("status", code=1)
    for words, told in (
        (["--rendezvous", "static://a"], "names no store"),
        (["--rendezvous", "127.0.0.1:1"], "127.0.0.1"),
        (["--rendezvous", "a:1", "--id", "a/b"], "is not a job id"),
        (["--rendezvous", "a:1", "--id", 300 * "\xe9"], "it has 600 bytes; pass 255"),
        (["--rendezvous", f"file:///{300 * 'a'}"], "is not a folder"),
    ):
        assert told in run("status", *words, code=1)
    assert "not both" in run("status", "12", "--rendezvous", "a:1", code=2)


def test_one_of_several_jobs_is_named_by_a_process():
    """Its address and secret are those in the environment of its ranks."""
    with closing(Server(b"secret", "127.0.0.1")) as server, ExitStack() as held:
        pids = []
        for job, port in ("j", server.port), ("k", 1):
            variables = {
                RENDEZVOUS.name: f"collalgo://127.0.0.1:{port}",
                JOB.name: job,
                SECRET.name: b"secret".hex(),
            }
            process = subprocess.Popen(["sleep", "77"], env=variables)
            held.callback(process.wait)
            held.callback(process.kill)
            pids.append(process.pid)
        told, job = run("status", code=1), f": sleep 77 (in {Path.cwd()}"
        assert all(f"  process {pid}{job}" in told for pid in pids), told
        assert "2 elastic jobs" in run("status", os.getpid(), code=1)
        assert "epoch 0" in run("status", pids[0])
        assert "excluded" in run("exclude", "rank 7", pids[0])
        assert "rank 7 is readmitted" in run("readmit", "rank 7", pids[0])
        assert "127.0.0.1:1" in run("status", pids[1], code=1)
        assert "in process 1;" in run("status", 1, "--id", "other", code=1)


def test_a_process_that_has_started_the_job_and_the_command_is_not_its_launcher():
    variables = {RENDEZVOUS.name: "collalgo://127.0.0.1:1"}
    with subprocess.Popen(["sleep", "77"], env=variables) as member:
        above = os.getppid()
        assert f"has members in process {above};" in run("status", above, code=1)
        assert "127.0.0.1:1" in run("status", member.pid, code=1)
        member.kill()


# ---- timelines


def test_events_are_read_as_they_were_written(tmp_path):
    epochs = [
        PastEpoch(1, ("a", "b", "c"), "the job has begun", 1_700_000_000_000),
        PastEpoch(2, ("a", "c"), "lost: b", 1_700_000_001_250),
        PastEpoch(3, ("a", "c", "b"), "new: b", 1_700_000_002_001),
    ]
    file = tmp_path / "events.jsonl"
    lines = [json.dumps(event_of_epoch(each)) for each in epochs]
    file.write_text("\n".join([*lines, lines[0], '{"event": "closed"}', ""]))
    assert read_events(file) == epochs
    for suffix in ("png", "svg"):
        draw(epochs, tmp_path / f"t.{suffix}")
    drawn = (tmp_path / "t.svg").read_text()
    assert all(f"<!-- {name} -->" in drawn for name in "abc")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no epochs"),
        ('{"event": "closed"}', "has no epochs"),
        ("nonsense", "line 1: 'nonsense' is not an event"),
        ("[" * 100_000, "line 1: .* is not an event"),
        ('\n{"event": "epoch", "epoch": 1}', "line 2: .* is not an event"),
        ('{"event": "epoch", "epoch": 1, "members": [1], "why": "", "time": ""}', "no"),
        ('{"event": "epoch", "epoch": 1, "members": [], "why": "", "time": "x"}', "no"),
        ("\0\udcff", "cannot be read"),
    ],
)
def test_files_without_events_are_refused(tmp_path, text, problem):
    file = tmp_path / "events.jsonl"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(EventsError, match=problem):
        read_events(file)
