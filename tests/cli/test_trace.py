"""``collalgo trace`` as a user types it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from collalgo.cli import trace
from collalgo.cli.main import main
from collalgo.launch.process import command_line
from collalgo.launch.rank_processes import RankProcess


def test_jobs_to_choose_from_are_told_by_commands_and_folders(monkeypatch, tmp_path):
    own, before = os.getpid(), Path.cwd()
    ranks = [
        RankProcess(process, "0", job, Path())
        for process, job in ((own, "a"), (os.getppid(), "b"))
    ]
    monkeypatch.setattr("collalgo.cli.unnamed_job.Path.cwd", lambda: tmp_path)
    monkeypatch.setattr(trace, "rank_processes", lambda _job: ranks)
    told = CliRunner().invoke(main, ["trace", "dump"])
    assert told.exit_code == 1
    output = told.output.replace("\n", "")
    assert "there are 2 jobs on this host, and none of them was started" in output
    assert f"name one by its process id, as PID {own}:" in output
    assert f"process {own}: {sys.executable}" in output
    assert f"(in {before}" in output


STARTED = "cd rank; RANK=0 WORLD_SIZE=1 exec sleep 60"


@pytest.fixture
def rank(tmp_path, monkeypatch):
    """The process of the only rank of this host, in a folder below its launcher's."""
    (tmp_path / "rank").mkdir()
    (tmp_path / "else").mkdir()
    launcher = subprocess.Popen(
        ["sh", "-c", f"({STARTED}) & echo $!; wait"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found = RankProcess(int(launcher.stdout.readline()), "0", "a", tmp_path)
    while command_line(found.process) != "sleep 60":
        time.sleep(0.01)
    monkeypatch.setattr(trace, "rank_processes", lambda _job: [found])
    monkeypatch.setattr(trace, "dump_ranks", lambda _: {found: tmp_path / "dump"})
    yield found.process
    os.kill(found.process, signal.SIGKILL)
    launcher.communicate()


def test_a_job_of_another_folder_is_dumped_only_by_name(rank, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "else")
    refused = CliRunner().invoke(main, ["trace", "dump"])
    assert refused.exit_code == 1
    assert f"process {rank}: sleep 60 (in {tmp_path}/rank" in refused.output
    assert "next:" not in refused.output
    assert CliRunner().invoke(main, ["trace", "dump", str(rank)]).exit_code == 0


@pytest.mark.parametrize("folder", [".", "rank"])
def test_the_job_of_this_folder_is_shown_before_its_dump(
    rank, tmp_path, monkeypatch, folder
):
    monkeypatch.chdir(tmp_path / folder)
    done = CliRunner().invoke(main, ["trace", "dump"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"process {rank}: sleep 60 (in {Path.cwd()})")
    assert "next: collalgo trace analyze" in done.output


def test_the_job_of_this_folder_is_preferred_to_others(rank, tmp_path, monkeypatch):
    other = subprocess.Popen(["sleep", "60"], env={"RANK": "0", "WORLD_SIZE": "1"})
    ranks = [
        RankProcess(other.pid, "0", "b", tmp_path),
        RankProcess(rank, "0", "a", tmp_path),
    ]
    monkeypatch.setattr(trace, "rank_processes", lambda _job: ranks)
    monkeypatch.setattr(trace, "dump_ranks", lambda some: dict.fromkeys(some, Path()))
    monkeypatch.setattr("collalgo.cli.unnamed_job.Path.cwd", lambda: tmp_path)
    done = CliRunner().invoke(main, ["trace", "dump"])
    other.kill()
    other.wait()
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"process {rank}: sleep 60")
    assert done.output.count("rank 0: ") == 1


def test_dumps_of_former_jobs_are_not_taken_for_new_ones(rank, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rank0-1.json").touch()
    monkeypatch.setattr(trace, "dump_ranks", lambda some: dict.fromkeys(some))
    nothing = CliRunner().invoke(main, ["trace", "dump"])
    assert nothing.exit_code == 1
    assert "next:" not in nothing.output
    new = tmp_path / "rank0-2.json"
    new.touch()
    monkeypatch.setattr(trace, "dump_ranks", lambda some: dict.fromkeys(some, new))
    done = CliRunner().invoke(main, ["trace", "dump"])
    assert "also has 1 older dump, which" in done.output.replace("\n", " ")
    assert f"next: collalgo trace analyze {tmp_path}" in done.output
