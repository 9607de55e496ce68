"""Real engines carry arrays of simulated devices between hosts."""

import signal

import pytest

from tests.support import remote_jobs
from tests.support.leisure import at_leisure
from tests.support.mpiexec import mpiexec
from tests.support.paths import SCRIPTS
from tests.support.ucx import skip_without_ucx

SCRIPT = SCRIPTS / "script_devices_across_hosts.py"


def run(duty):
    skip_without_ucx()
    return remote_jobs.run("a:1,b:2", SCRIPT, duty, "1+2", timeout=60)


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("duties", ["busy,right,late", "staged"])
def test_calls_over_ucx_are_right_or_end_in_time(duties):
    done = run(duties)
    for duty in duties.split(","):
        assert done.stdout.count(f": {duty};") == 3, done.stdout + done.stderr


@pytest.mark.usefixtures("rsh")
def test_a_rank_that_is_killed_is_named_by_those_that_wait_for_its_device():
    done = run("killed")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stdout.count(": killed;") == 2, done.stdout + done.stderr


@pytest.mark.mpi
@pytest.mark.parametrize("name", at_leisure(["mpich", "openmpi"], {"mpich"}))
def test_calls_over_mpi_are_right(name):
    done = mpiexec(name, 3, SCRIPT, "right", "1+2")
    assert done.stdout.count(": right;") == 3, done.stdout + done.stderr
