"""The kinds of transports: how their worlds are started, for the conformance test.

A further transport adds a row to :data:`WORLDS`: a function that runs a scenario of
:mod:`tests.support.transport_scenarios` on every rank, and raises what fails there.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from collalgo.engine.transport import shm, thread
from tests.support.mpiexec import mpiexec
from tests.support.paths import ROOT
from tests.support.processes import ended
from tests.support.transport_rank import Rank
from tests.support.transport_scenarios import SCENARIOS, finish
from tests.support.ucx import skip_without_ucx

SCRIPT = ROOT / "tests" / "support" / "script_on_transport.py"


def on_threads(scenario, size, folder):
    """Ranks as threads."""

    def run(transport):
        rank = Rank(transport, folder)
        SCENARIOS[scenario](rank)
        finish(rank)

    with ThreadPoolExecutor(size) as pool:
        for done in [pool.submit(run, each) for each in thread.world(size)]:
            done.result(timeout=120)


def on_processes(scenario, size, folder):
    """Ranks as processes of one host."""
    _on_hosts(scenario, [0] * size, folder, "none")


def on_hosts_of_one_rank(scenario, size, folder):
    """Ranks as processes, between any two of which UCX carries the messages."""
    _on_hosts(scenario, list(range(size)), folder, "ucx")


def on_two_hosts(scenario, size, folder):
    """The last rank on a host of its own."""
    _on_hosts(scenario, [0] * (size - 1) + [1], folder, "ucx")


def under_mpi(scenario, size, folder, engine="mpi"):
    """Each rank on a host of its own, between which MPI carries the messages."""
    hosts = ",".join(map(str, range(size)))
    words = (str(SCRIPT), scenario, str(folder), hosts, engine)
    done = mpiexec("mpich", size, *words, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr


def _on_hosts(scenario, hosts, folder, engine):
    """Ranks as processes; those of a host share a memory file."""
    if engine == "ucx":
        skip_without_ucx()
    files = {host: shm.create(hosts.count(host)) for host in set(hosts)}
    words = [sys.executable, SCRIPT, scenario, folder, ",".join(map(str, hosts))]
    try:
        ranks = [
            subprocess.Popen(
                [*words, engine, str(rank), str(files[host])],
                pass_fds=[files[host]], stderr=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for rank, host in enumerate(hosts)
        ]  # fmt: skip
        with ended(ranks):
            errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for descriptor in files.values():
            os.close(descriptor)
    assert [rank.returncode for rank in ranks] == [0] * len(hosts), "\n".join(errors)


WORLDS = {
    "threads": on_threads,
    "processes": on_processes,
    "ucx": on_hosts_of_one_rank,
    "processes and ucx": on_two_hosts,
    "mpi": under_mpi,
    "mpi in long parts": partial(under_mpi, engine="mpi in long parts"),
}

#: A thread cannot die alone, and mpiexec ends all ranks once one has died.
WITHOUT_DEATHS = ("threads", "mpi", "mpi in long parts")
