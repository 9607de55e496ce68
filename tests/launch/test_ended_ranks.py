"""A rank that ends before it joins is named to those that wait for it."""

import os
import subprocess
import sys

import pytest

from collalgo.bootstrap.ended_ranks import EndedRanks
from collalgo.bootstrap.liveness_check import ProcessGone
from collalgo.launch.error_records import ErrorRecords
from tests.launch.test_run import COLLALGO


def run(*words, text=None):
    return subprocess.run(
        [*COLLALGO, "run", *words],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("ends", [0, 1])
def test_a_rank_that_ends_before_init_is_named_at_once(ends, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, collalgo\n"
        f"if os.environ['RANK'] == '{ends}': sys.exit()\n"
        "collalgo.init()\n"
    )
    done = run("-n", "2", sys.executable, str(script))
    assert done.returncode == 1
    assert f"rank {1 - ends} waited for rank {ends} to join" in done.stderr
    assert "it ended (exit code 0) before it joined" in done.stderr
    assert "standard input" not in done.stderr


def test_a_program_from_standard_input_is_only_that_of_rank_0():
    done = run("-n", "2", sys.executable, "-", text="import collalgo; collalgo.init()")
    assert done.returncode == 1
    assert "standard input goes to rank 0 only" in done.stderr


def test_a_rank_that_goes_on_in_the_background_may_join_later(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import collalgo; print('joined', collalgo.init().size)\n")
    late = f'[ "$RANK" = 0 ] || sleep 2; exec {sys.executable} {script}'
    done = run("-n", "2", "sh", "-c", f"({late}) & [ $RANK = 1 ] || wait")
    assert done.returncode == 0, done.stderr
    assert "[0] joined 2" in done.stdout


def test_only_the_ends_of_other_ranks_count(monkeypatch):
    records = ErrorRecords()
    _, variables = records.next()
    monkeypatch.setenv(*next(iter(variables.items())))
    monkeypatch.setattr("collalgo.bootstrap.ended_ranks.LIVENESS_SECONDS", 0.0)
    ended = EndedRanks(1)
    ended.check()
    records.note_end(1, 2**30)
    records.note_end(2, os.getsid(0))
    ended.check()
    assert records.traceback("1") == []
    records.note_end(3, 2**30)
    with pytest.raises(ProcessGone, match="waited for rank 3 to join"):
        ended.check()
    records.close()
    EndedRanks(1).check()
