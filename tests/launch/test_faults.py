"""What dies, and when: every phase of a job on the hosts of a cluster.

Deadlines bound how long a fault may take to be noticed; they do not measure speed.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from collalgo.bench.cluster.kernel import inside, processes, set_link
from collalgo.bench.cluster.running import UCX, agent_of, command_line

from tests.support.clusters import needs_root, ranks_in
from tests.support.leisure import at_leisure
from tests.support.shared_memory import left_in_memory, names_in_memory

#: The ranks of each host: the last two share one.
SLOTS = {"h0": 1, "h1": 1, "h3": 2}
LAST = sum(SLOTS.values()) - 1

#: In the phase that is asked for all ranks but one are in a call that it does not make;
#: in that between calls all compute, and in the last all are in a call.
SCRIPT = """
import os, sys, time
import numpy as np, collalgo
import collalgo.bootstrap.connect  # a rank that is ready has only to join

phase, rank = sys.argv[1], int(os.environ.get("RANK") or os.environ["PMI_RANK"])
x = np.ones(2_000_000, np.float32)

def begin(late):
    print("ready", flush=True)
    time.sleep(30 if late else 0)

try:
    if phase == "joining":
        begin(late=rank == 0)
    comm = collalgo.init(timeout=60)
    comm.allreduce(x)
    if phase == "splitting":
        begin(late=rank == 0)
        comm.split(rank % 2)
    if phase == "receiving":
        begin(late=rank == comm.size - 1)
        comm.recv(x, comm.size - 1)
    if phase == "between calls":
        print("ready", flush=True)
        time.sleep(2)
        comm.allreduce(x, "max")
    if phase == "calling":
        print("ready", flush=True)
        while True:
            comm.allreduce(x, "max")
except collalgo.CollalgoError as error:
    name, missing = type(error).__name__, getattr(error, "missing", None)
    print(f"told {rank}: {name} {missing}: {error} <end>", flush=True)
    sys.exit(1)
"""

PHASES = ["joining", "splitting", "receiving", "between calls", "calling"]

pytestmark = [needs_root, pytest.mark.deadline]


def by_collalgo(plan, agent, command):
    """The command that starts ranks which use UCX, and its environment."""
    hosts = ",".join(f"{host}:{ranks}" for host, ranks in plan.slots.items())
    words = [sys.executable, "-m", "collalgo", "run", "-H", hosts, *command]
    variables = {"COLLALGO_RSH": str(agent), "UCX_TLS": "tcp,self"}
    return inside(plan, plan.hosts[0], *words), variables


def by_mpiexec(plan, agent, command):
    """The same for ranks that use MPI."""
    folder = Path(sys.prefix) / "bin"
    return command_line(plan, command, agent, folder, plan.size), UCX


@contextmanager
def job(plan, folder, phase, started=by_collalgo):
    """A job on all hosts, once every rank is in the phase."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    plan = replace(plan, slots=SLOTS)
    with agent_of(plan) as agent:
        words, variables = started(plan, agent, [sys.executable, str(script), phase])
        launcher = subprocess.Popen(
            words, env={**os.environ, **variables}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            seen = ""
            while seen.count("ready") < plan.size:
                seen += (line := launcher.stdout.readline())
                assert line, seen
            time.sleep(3 if phase == "joining" else 0.5)
            yield launcher
        finally:
            launcher.kill()
            launcher.stdout.close()
            launcher.wait()


def what_is_told(launcher, ranks):
    """What these ranks say once they have noticed, and how long the last one took."""
    start, told, text = time.monotonic(), {}, ""
    while not ranks <= told.keys():
        text += (line := launcher.stdout.readline())
        assert line, text
        for rank, words in re.findall(r"told (\d): (.*?) <end>", line):
            told[int(rank)] = words
    return {told[rank] for rank in ranks}, time.monotonic() - start


def others(phase, lost):
    """The ranks that are in a call and live."""
    late = phase in ("joining", "splitting")
    return set(range(late, LAST + 1)) - lost


def process_of(plan, host, rank):
    for process in ranks_in(plan, host):
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return process
    raise AssertionError(f"rank {rank} has no process on {host}")


def all_are_gone(listed, seconds):
    """Whether the processes that a function lists end in time."""
    end = time.monotonic() + seconds
    while list(listed()) and time.monotonic() < end:
        time.sleep(0.05)
    return not list(listed())


def nothing_is_left(plan, seconds):
    return all_are_gone(lambda: processes(plan), seconds)


@pytest.mark.parametrize("phase", at_leisure(PHASES, {"splitting"}))
def test_a_killed_rank_is_named_by_all_others(cluster, tmp_path, phase):
    plan = cluster("star")
    with job(plan, tmp_path, phase) as launcher:
        os.kill(process_of(plan, "h3", LAST), signal.SIGKILL)
        if phase != "between calls":  # who computes is stopped without a word
            told, seconds = what_is_told(launcher, others(phase, {LAST}))
            assert all(f"rank {LAST}" in each for each in told), told
            assert seconds < 1
        assert f"rank {LAST} was killed by SIGKILL" in launcher.stdout.read()
        assert nothing_is_left(plan, 10)


@pytest.mark.parametrize("phase", at_leisure(PHASES, {"joining"}))
def test_a_host_that_is_cut_off_is_named_by_all_others(cluster, tmp_path, phase):
    plan = cluster("star")
    with job(plan, tmp_path, phase) as launcher:
        set_link(plan, "h3/nic0", working=False)
        told, seconds = what_is_told(launcher, others(phase, {LAST - 1, LAST}))
        assert all(re.search("rank [23]|ranks 2", each) for each in told), told
        assert seconds < 5
        assert nothing_is_left(plan, 15)


@pytest.mark.mpi
@pytest.mark.parametrize("phase", at_leisure(PHASES[1:], {"calling"}))
def test_so_it_is_under_mpi_once_that_has_started(cluster, tmp_path, phase):
    plan = cluster("star")
    before = names_in_memory(mpich=True)
    with job(plan, tmp_path, phase, by_mpiexec) as launcher:
        set_link(plan, "h3/nic0", working=False)
        told, seconds = what_is_told(launcher, others(phase, {LAST - 1, LAST}))
        assert all(re.search("rank [23]|ranks 2", each) for each in told), told
        assert all(re.match(r"\w+ \([23],\): ", each) for each in told), told
        if phase != "receiving":  # there each says that it was who waited
            assert len(told) == 1, told
        assert seconds < 5
        hosts = plan.hosts[:3]  # mpiexec does not reach the last one to end its ranks
        assert all_are_gone(lambda: ranks_in(plan, *hosts), 15)
        assert not left_in_memory(before, mpich=True)


@pytest.mark.parametrize("phase", at_leisure(PHASES, {"splitting"}))
def test_nothing_outlives_the_launcher(cluster, tmp_path, phase):
    plan = cluster("star")
    with job(plan, tmp_path, phase) as launcher:
        launcher.kill()
        assert nothing_is_left(plan, 5)
