"""How many cores there are, by affinity and by cgroup, and what follows for waiting."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from collalgo import spawn
from collalgo.engine.transport import waiting
from collalgo.engine.transport.waiting import ALONE, SHARING, cores, patience, quota
from tests.support.paths import ROOT


@pytest.mark.deadline
def test_the_cores_of_ranks_that_are_bound_are_those_of_all(monkeypatch):
    bound = {0: {0}, 11: {1}, 12: {0, 2}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(bound[process]))
    monkeypatch.setattr(waiting, "quota", lambda: 1e9)
    assert cores() == 1
    assert cores([0, 11]) == 2
    assert cores([0, 11, 12]) == 3


@pytest.mark.deadline
def test_a_process_that_has_ended_has_no_cores(monkeypatch):
    monkeypatch.setattr(waiting, "quota", lambda: 1e9)
    assert cores([2**22 + 1]) == len(os.sched_getaffinity(0))


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"a/cpu.max": "300000 100000", "cpu.max": "200000 100000"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/b/cpu.cfs_quota_us": "50000", "cpu/b/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_quotas_count_wherever_they_are_set(monkeypatch, tmp_path, files, expected):
    own = tmp_path / "own"
    own.write_text("0::/a\n3:cpu,cpuacct:/b\n2:memory:/c\n")
    groups = tmp_path / "groups"
    for name, text in files.items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(waiting, "CGROUPS", str(groups))
    monkeypatch.setattr(waiting, "OWN_CGROUPS", str(own))
    assert quota() == (sys.maxsize if expected is None else expected)


@pytest.mark.deadline
def test_less_than_a_core_is_still_one(monkeypatch):
    monkeypatch.setattr(waiting, "quota", lambda: 0.2)
    assert cores() == 1


@pytest.mark.deadline
def test_only_ranks_with_cores_of_their_own_spin():
    assert patience(4, 4) == ALONE
    assert patience(5, 4) == SHARING
    assert SHARING.spins == 0


CALLS = 400


def reduce_on_a_busy_core(comm):
    """Each time that a rank sleeps, it switches to another process of its own will."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for _ in range(CALLS):
        comm.allreduce(np.ones(4))
    sleeps = np.array([resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before])
    assert comm.allreduce(sleeps)[0] > CALLS / 2


@pytest.mark.deadline
def test_who_shares_a_core_with_a_process_that_computes_sleeps_rather_than_yields():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # which what is started here inherits
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                spawn(reduce_on_a_busy_core, 2, timeout=60)
            finally:
                busy.kill()
    finally:
        os.sched_setaffinity(0, allowed)


def test_waits_that_send_nothing_over_mpi_let_it_send():
    """It makes progress in its calls only, from the threads that may make them."""
    script = ROOT / "tests" / "support" / "script_mpi_polls.py"
    levels = ("single", "funneled", "serialized", "multiple")
    done = subprocess.run(
        [sys.executable, script, *levels], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        f"{level} {thread} -2 -1 7"
        for level in levels
        for thread in ("main", "other")
        if thread == "main" or level in levels[2:]
    ]
