"""Under the srun of a real Slurm, whose two nodes are two daemons on this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.support.ports import reserved_ports

PROGRAMS = ("slurmctld", "slurmd", "srun", "salloc", "sinfo")
PATH = os.environ.get("PATH", "") + ":/usr/sbin"

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0
        or not all(shutil.which(each, path=PATH) for each in PROGRAMS),
        reason="Slurm needs root, and: apt-get install slurmctld slurmd slurm-client",
    ),
    pytest.mark.deadline,
]

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE
"""

#: The nodes have the name of this machine, which makes them one host.
SCRIPT = """
import os, numpy as np, collalgo
os.environ["COLLALGO_HOST"] = os.environ["SLURMD_NODENAME"]
comm = collalgo.init(timeout=60)
assert comm.rank == int(os.environ["SLURM_PROCID"])
assert comm.allreduce(np.array([comm.rank]))[0] == sum(range(comm.size))
numbers = [os.environ.get(name) for name in ("RANK", "LOCAL_SIZE", "CROSS_RANK")]
print(f"{comm.rank}: {comm.hosts}, {str(comm.engine).split()[0]}, {numbers}\\n", end="")
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of a cluster that is up."""
    folder = tmp_path_factory.mktemp("slurm")
    file = folder / "slurm.conf"
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith("SLURM")}  # fmt: skip
    variables |= {"SLURM_CONF": str(file), "PATH": PATH, "UCX_TLS": "tcp,self"}
    with reserved_ports(3) as ports:
        words = {"host": socket.gethostname(), "ports": ports, "folder": folder}
        file.write_text(CONFIGURATION.format(**words))
        with daemons(variables, folder):
            await_nodes(variables, folder)
            yield variables


@contextmanager
def daemons(variables, folder):
    lines = (["slurmctld"], ["slurmd", "-N", "n1"], ["slurmd", "-N", "n2"])
    started = [daemon(line, variables, folder) for line in lines]
    try:
        yield
    finally:
        for each in reversed(started):
            each.terminate()
        for each in started:
            each.wait(20)


def daemon(line, variables, folder):
    """A daemon of Slurm; its log is named after the last word of its command line."""
    with (folder / f"{line[-1]}.log").open("wb") as log:
        return subprocess.Popen([*line, "-D"], env=variables, stdout=log, stderr=log)


def await_nodes(variables, folder):
    """Wait until both nodes are ready."""
    end = time.monotonic() + 20
    while True:
        asked = subprocess.run(
            ["sinfo", "--noheader", "--format=%D %T"], env=variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.stdout.split() == ["2", "idle"]:
            return
        logs = "\n".join(log.read_text() for log in folder.glob("*.log"))
        assert time.monotonic() < end, asked.stdout + asked.stderr + logs
        time.sleep(0.1)


def ranks_of(slurm, tmp_path, *command):
    """What each rank says, in the order of ranks."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [*command, script], env=slurm,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


def test_ranks_of_srun_on_one_node_connect_there(slurm, tmp_path):
    found = ranks_of(slurm, tmp_path, "srun", "-N", "1", "-n", "2", sys.executable)
    assert found == [f"{r}: (0, 0), None, [None, None, None]" for r in range(2)]


def test_ranks_of_srun_on_two_nodes_connect_by_pmi(slurm, tmp_path):
    command = ("srun", "--mpi=pmi2", "-N", "2", "-n", "4", sys.executable)
    found = ranks_of(slurm, tmp_path, *command)
    assert found == [f"{r}: (0, 0, 1, 1), MPI, [None, None, None]" for r in range(4)]


def test_collalgo_run_fills_the_nodes_of_its_job_by_srun(slurm, tmp_path):
    run = (sys.executable, "-m", "collalgo", "run", "--mpi-args=--mpi=pmi2")
    found = ranks_of(slurm, tmp_path, "salloc", "-N", "2", "-n", "4", *run)
    assert found == [
        f"{r}: (0, 0, 1, 1), MPI, ['{r}', '2', '{r // 2}']" for r in range(4)
    ]
