"""What a process forked from a rank may do: nothing of its parent's, all of its own."""

import json
import os
import signal
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import collalgo
from collalgo import CommunicatorClosed, spawn
from collalgo.comm.tracing.analysis import analyze


def in_a_child(duty):
    """Do something in a forked child, and check that it succeeds."""
    if not (child := os.fork()):
        try:
            duty()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code


def of_a_spawned_rank(comm, folder):
    comm.allreduce(np.ones(3))

    def duty():
        for call in (lambda: comm.allreduce(np.ones(3)), comm.dup, collalgo.barrier):
            with pytest.raises(
                CommunicatorClosed, match="leave the calls to the parent"
            ):
                call()
        with pytest.raises(collalgo.CollalgoError, match="dump: this process was fork"):
            collalgo.dump(folder / "dumps")
        comm.close()
        with pytest.raises(collalgo.CollalgoError, match="was started by rank 1 of 2"):
            collalgo.init()

    if comm.rank == 1:
        in_a_child(duty)
    comm.allreduce(np.ones(3))
    collalgo.dump(folder / "dumps")


def test_a_child_of_a_spawned_rank_does_not_pass_for_it(tmp_path):
    spawn(partial(of_a_spawned_rank, folder=tmp_path), 2, timeout=60)
    assert len(list((tmp_path / "dumps").iterdir())) == 2
    for finding in analyze(tmp_path / "dumps"):
        assert finding.culprits == ()
        assert not finding.inconclusive


OF_A_LAUNCHER = """
import collalgo, numpy as np, os, signal, sys
world = collalgo.init()
world.barrier()
if not os.fork():
    os.kill(os.getpid(), signal.SIGUSR1)
    for call in (world.barrier, world.dup, collalgo.init, collalgo.dump):
        try:
            call()
        except collalgo.CollalgoError as error:
            print(f"told: {error}", flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
world.barrier()
"""


def test_a_child_of_a_rank_of_a_launcher_leaves_the_calls_to_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "run", "-n", "2", sys.executable, "-c",
         OF_A_LAUNCHER],
        env={**os.environ, "COLLALGO_DUMP": str(tmp_path / "dumps")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("leave the calls to the parent") == 4, done.stdout
    assert done.stdout.count("was started by rank") == 2
    assert done.stdout.count("dump: this process was forked") == 2
    assert not (tmp_path / "dumps").exists()


def test_a_child_of_a_process_that_is_alone_has_a_world_of_its_own(tmp_path):
    with collalgo.init() as world:

        def duty():
            with pytest.raises(CommunicatorClosed, match=r"call collalgo\.init\(\) in"):
                world.allreduce(np.ones(1))
            own = collalgo.init()
            assert own is not world
            assert own.allreduce(np.ones(1))[0] == 1
            found = json.loads(collalgo.dump(tmp_path).read_text())
            assert len(found["communicators"]) == 1
            os.environ["COLLALGO_DUMP"] = str(tmp_path / "by signal")
            os.kill(os.getpid(), signal.SIGUSR1)
            assert list((tmp_path / "by signal").iterdir())

        in_a_child(duty)
        world.allreduce(np.ones(1))


def forks(comm):
    """Children that call, that end with all finalizers of Python, and that fail."""

    def call():
        with pytest.raises(CommunicatorClosed, match="made before the process forked"):
            comm.allreduce(np.ones(3))

    in_a_child(call)  # the first call of the communicator
    for end in (sys.exit, lambda: 1 / 0):
        if not (child := os.fork()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            end()
        os.waitpid(child, 0)
        comm.allreduce(np.ones(3))
    in_a_child(call)
    return comm.allreduce(np.ones(1))[0]


JOB = """
import collalgo, sys
sys.path.insert(0, sys.argv[1])
from tests.comm.test_forked import forks
print(forks(collalgo.init(timeout=20)))
"""


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("where", [("-n", "2"), ("-H", "a:1,b:1")])
def test_a_child_that_forks_takes_nothing_from_its_parent(where, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    run = [sys.executable, "-m", "collalgo", "run", *where, sys.executable]
    done = subprocess.run(
        [*run, tmp_path / "job.py", Path(__file__).parents[2]],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert sorted(done.stdout.splitlines()) == ["[0] 2.0", "[1] 2.0"]
