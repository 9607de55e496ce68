"""From the options of ``collalgo run`` to the plan that starts the ranks."""

import os
import subprocess
import sys

import pytest

from collalgo.errors import BootstrapError
from collalgo.launch.agent import AgentJob
from collalgo.launch.delegate import DelegatedLaunch
from collalgo.launch.hosts import MAX_SLOTS, Host
from collalgo.launch.local import LocalLaunch, Scope
from collalgo.launch.plan import Launcher, LaunchOptions, launch_plan
from collalgo.launch.ssh import SshLaunch

pytestmark = pytest.mark.parallel

HOSTS = (Host("a", 2), Host("b", 1))


def test_without_hosts_the_ranks_run_here():
    plan = launch_plan(LaunchOptions(["true"], 3))
    assert isinstance(plan, LocalLaunch)
    assert plan.scope is Scope.WHOLE_JOB
    assert [spec.rank for spec in plan.specs] == [0, 1, 2]
    for spec in plan.specs:
        assert spec.environment["RANK"] == str(spec.rank)
        assert spec.environment["LOCAL_RANK"] == str(spec.rank)
        assert spec.environment["WORLD_SIZE"] == "3"
    assert len({spec.environment["COLLALGO_JOB"] for spec in plan.specs}) == 1


@pytest.mark.parametrize("size", [MAX_SLOTS + 1, 2_000_000])
def test_more_ranks_than_a_host_takes_are_refused(size):
    with pytest.raises(ValueError, match=f"{size} ranks are more than the {MAX_SLOTS}"):
        LaunchOptions(["true"], size)
    LaunchOptions(["true"], size, launcher=Launcher.MPI)  # which may have many hosts


def test_two_jobs_have_names_of_their_own():
    jobs = [LocalLaunch.of_job(["true"], 1).specs[0].environment for _ in range(2)]
    assert jobs[0]["COLLALGO_JOB"] != jobs[1]["COLLALGO_JOB"]


@pytest.mark.parametrize(("size", "counts"), [(None, [2, 1]), (3, [2, 1]), (1, [1])])
def test_hosts_are_reached_by_ssh(size, counts, tmp_path):
    plan = launch_plan(LaunchOptions(["true"], size, HOSTS, tmp_path))
    assert isinstance(plan, SshLaunch)
    assert [len(ranks) for ranks in plan.positions.values()] == counts
    assert plan.logs == tmp_path


@pytest.mark.parametrize("launcher", ["mpich", "open_mpi", "srun"])
@pytest.mark.parametrize("hosts", [(), HOSTS])
def test_an_mpi_or_slurm_is_delegated_to_by_its_own_options(
    launcher, hosts, tmp_path, monkeypatch
):
    said = {"mpich": "HYDRA build details", "open_mpi": "mpiexec (Open MPI) 5.0"}
    program = tmp_path / ("srun" if launcher == "srun" else "mpiexec")
    program.write_text(f"#!/bin/sh\necho '{said.get(launcher)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if launcher == "srun":
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    plan = launch_plan(LaunchOptions(["x"], 3, hosts, launcher=Launcher.MPI))
    assert isinstance(plan, DelegatedLaunch)
    assert plan.line[:3] == [str(program), "-n", "3"]
    assert plan.line[-1] == "x"
    named = {
        "mpich": ["-hosts", "a:2,b:1"],
        "open_mpi": ["--host", "a:2,b:1"],
        "srun": ["--nodelist", "a,b"],
    }[launcher]
    assert (plan.line[3:5] == named) == bool(hosts)


def test_options_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the number of ranks is missing"):
        LaunchOptions(["true"])
    with pytest.raises(ValueError, match="--log-dir is not for --mpi"):
        LaunchOptions(["true"], 2, logs=tmp_path, launcher=Launcher.MPI)
    with pytest.raises(BootstrapError, match="4 ranks do not fit into 3 slots"):
        launch_plan(LaunchOptions(["true"], 4, HOSTS))


def test_a_command_line_that_contradicts_itself_is_an_error_of_usage(tmp_path):
    words = [sys.executable, "-m", "collalgo", "run"]
    hosts = tmp_path / "hosts"
    hosts.write_text("a\n")
    for options, message in (
        (["true"], "the number of ranks is missing"),
        (["-n", "2", "--mpi", "--log-dir", "x", "true"], "--log-dir is not for --mpi"),
        (
            ["-H", "a", "--hostfile", str(hosts), "true"],
            "give -H or --hostfile, not both",
        ),
    ):
        done = subprocess.run(
            [*words, *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert message in done.stderr


def test_an_agent_gets_its_ranks_as_they_were_sent(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    ranks = {2: {"RANK": "2"}, 3: {"RANK": "3"}}
    job = AgentJob(["true"], "/", {"WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}, ranks)
    line = job.encode()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    plan = AgentJob.decode(line).plan()
    assert plan.scope is Scope.ONE_HOST
    assert [spec.rank for spec in plan.specs] == [2, 3]
    for spec in plan.specs:
        assert spec.environment["RANK"] == str(spec.rank)
        assert spec.environment["WORLD_SIZE"] == "4"
        assert spec.environment["OMP_NUM_THREADS"] == "3"
