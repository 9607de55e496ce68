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


def test_jobs_to_choose_from_are_told_by_their_commands(monkeypatch):
    ranks = [RankProcess(os.getpid(), "0", job, Path()) for job in ("a", "b")]
    monkeypatch.setattr(trace, "rank_processes", lambda _job: ranks)
    told = CliRunner().invoke(main, ["trace", "dump"])
    assert told.exit_code == 1
    assert "there are 2 jobs on this host" in told.output
    assert f"{os.getpid()}: {sys.executable}" in told.output.replace("\n", "")


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
