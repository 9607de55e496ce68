"""The doctor, the logs and the command lines of jobs on several hosts."""

import re
import subprocess
import sys

import pytest


@pytest.mark.usefixtures("rsh")
def test_the_doctor_says_what_there_is_and_which_host_cannot_be_used():
    command = [sys.executable, "-m", "collalgo", "doctor", "-n", "999"]
    done = subprocess.run(
        [*command, "-H", "localhost:2,nowhere:1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    text = re.sub(r"\s+", " ", done.stdout)
    for line in (
        "launcher none",
        "999 ranks share",
        "route to localhost from 127.0.0.1",
        "MPI mpi4py",
        "host localhost can be used",
        "host nowhere host nowhere cannot be used",
    ):
        assert line in text, text
    done = subprocess.run(command[:4], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("options", [("-n", "3"), ("-H", "a:2,b:1")])
def test_the_output_of_each_rank_is_kept_where_it_is_wanted(options, tmp_path):
    code = (
        "import os, sys; print('out', os.environ['RANK']); sys.stderr.write('err\\n')"
    )
    command = [sys.executable, "-m", "collalgo", "run", *options, "--log-dir"]
    done = subprocess.run(
        [*command, str(tmp_path / "logs"), sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"[{rank}] out {rank}\n" in done.stdout
        kept = tmp_path / "logs" / f"rank.{rank}"
        assert (kept / "stdout").read_text() == f"out {rank}\n"
        assert (kept / "stderr").read_text() == "err\n"


@pytest.mark.mpi
def test_mpiexec_can_start_the_ranks_and_the_line_is_shown():
    script = (
        "import collalgo; c = collalgo.init(); "
        "print(f'rank {c.rank} {c.size}\\n', end='')"
    )
    command = [sys.executable, "-m", "collalgo", "run", "--mpi", "-n", "2"]
    done = subprocess.run(
        [*command, sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"collalgo run: \S+/mpiexec -n 2 ", done.stderr)
    assert {"rank 0 2", "rank 1 2"} <= set(done.stdout.splitlines())
