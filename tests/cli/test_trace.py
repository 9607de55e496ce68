"""``collalgo trace`` as a user types it."""

import os
import sys
from pathlib import Path

from click.testing import CliRunner

from collalgo.cli import trace
from collalgo.cli.main import main
from collalgo.launch.rank_processes import RankProcess


def test_jobs_to_choose_from_are_told_by_their_commands(monkeypatch):
    ranks = [RankProcess(os.getpid(), "0", job, Path()) for job in ("a", "b")]
    monkeypatch.setattr(trace, "rank_processes", lambda _job: ranks)
    told = CliRunner().invoke(main, ["trace", "dump"])
    assert told.exit_code == 1
    assert "there are 2 jobs on this host" in told.output
    assert f"{os.getpid()}: {sys.executable}" in told.output.replace("\n", "")
