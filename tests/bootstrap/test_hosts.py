"""Worlds on several hosts, which here are parts of one machine that may not share.

Deadlines bound how long a failure may take to be noticed; they do not measure speed.
"""

from itertools import product

import pytest

from tests.support.leisure import at_leisure
from tests.support.mpiexec import ENVIRONMENTS, mpiexec
from tests.support.paths import SCRIPTS
from tests.support.remote_jobs import check_failures

#: Ranks on each host.
LAYOUTS = ["2+2", "3+3", "4+4", "3+2+1"]

#: What is done in every run of the tests.
QUICK = [("mpich", "other_half_of_everything,groups", "3+2+1"),
         ("openmpi", "quarter_of_everything,groups,messages", "2+2")]  # fmt: skip

SCRIPT = SCRIPTS / "script_across_hosts.py"

pytestmark = pytest.mark.mpi


def ranks_of(layout):
    return sum(map(int, layout.split("+")))


def all_do(name, duty, layout, options=()):
    """What the ranks have printed, all of which must come to their end."""
    size = ranks_of(layout)
    done = mpiexec(name, size, SCRIPT, duty, layout, options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"right {rank};" in done.stdout for rank in range(size)), done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("name", "duty", "layout"),
    at_leisure([*product(ENVIRONMENTS, ["everything"], LAYOUTS), *QUICK], QUICK),
)
def test_every_algorithm_is_right_across_hosts(name, duty, layout):
    """Of six ranks half of the algorithms are quick here, and half by UCX.

    Of four ranks a quarter is, and what six cannot run.
    """
    all_do(name, duty, layout)


def test_a_host_may_be_what_the_launcher_takes_for_one():
    options = ("-launcher", "fork", "-hosts", "a:2,b:2")
    all_do("mpich", "groups,messages", "2+2", options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layout"),
    [*product(ENVIRONMENTS, ["1+1", "2+2", "3+1"])],
)
def test_groups_come_up_within_hosts_and_across(name, layout):
    all_do(name, "groups,messages", layout)


def test_fast_ranks_wait_for_slow_ones():
    all_do("mpich", "swarm", "2+1")


@pytest.mark.parametrize("name", at_leisure(ENVIRONMENTS, {"mpich"}))
def test_a_root_may_end_before_the_others_connect(name):
    all_do(name, "early", "1+2")


@pytest.mark.deadline
def test_failures_are_told_to_all_ranks_alike():
    check_failures(all_do("mpich", "failures", "2+1"))
