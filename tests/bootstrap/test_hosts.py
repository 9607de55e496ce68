"""Worlds on several hosts, which here are parts of one machine that may not share.

Deadlines bound how long a failure may take to be noticed; they do not measure speed.
"""

import re
from itertools import product

import pytest

from tests.support.leisure import at_leisure
from tests.support.mpiexec import ENVIRONMENTS, mpiexec
from tests.support.paths import SCRIPTS

#: Ranks on each host.
LAYOUTS = ["2+2", "3+3", "4+4", "3+2+1"]

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


def told(output):
    """What each rank was told of a failure; all must be told the same."""
    found = re.findall(r"told \d+: (.*?)\.\n", output)
    assert len(set(found)) == 1, found
    return found


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("name", "layout"),
    at_leisure(
        product(ENVIRONMENTS, LAYOUTS), {("mpich", "3+2+1"), ("openmpi", "2+2")}
    ),
)
def test_every_algorithm_is_right_across_hosts(name, layout):
    all_do(name, "everything", layout)


@pytest.mark.parallel
def test_a_host_may_be_what_the_launcher_takes_for_one():
    options = ("-launcher", "fork", "-hosts", "a:2,b:2")
    all_do("mpich", "groups", "2+2", options)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("name", "layout"),
    at_leisure(
        product(ENVIRONMENTS, ["1+1", "2+2", "3+1"]),
        {("mpich", "2+2"), ("openmpi", "3+1")},
    ),
)
def test_groups_come_up_within_hosts_and_across(name, layout):
    all_do(name, "groups,messages", layout)


@pytest.mark.parallel
def test_fast_ranks_wait_for_slow_ones():
    all_do("mpich", "swarm", "2+1")


@pytest.mark.parallel
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_root_may_end_before_the_others_connect(name):
    all_do(name, "early", "1+2")


def test_calls_that_differ_are_reported_to_all():
    found = told(all_do("mpich", "mismatch", "2+2"))
    assert len(found) == 4
    assert "passed 1000 elements" in found[0]
    assert "passed 1001 elements" in found[0]


def test_a_rank_that_does_not_call_is_named_on_every_host():
    found = told(all_do("mpich", "late", "2+1"))
    assert len(found) == 3
    assert "for rank 2, whose last call was allreduce #1 (7 float64" in found[0]


def test_a_rank_that_leaves_is_named_on_every_host():
    found = told(all_do("mpich", "leaver", "1+2"))
    assert len(found) == 2
    assert "rank 2 is gone: its communicator was closed" in found[0]
