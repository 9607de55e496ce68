"""From the options of ``collalgo run`` to the plan that starts the ranks."""

import json
import subprocess
import sys

import pytest

from collalgo.bootstrap.launcher_variables import JSRUN, MPICH, OPEN_MPI, PALS, SRUN
from collalgo.errors import BootstrapError
from collalgo.launch import environment
from collalgo.launch.agent import AgentJob
from collalgo.launch.binding import Binding
from collalgo.launch.hosts import MAX_SLOTS, Host, RankPosition
from collalgo.launch.local import LocalLaunch, Scope
from collalgo.launch.options import Launcher, LaunchOptions, OptionError
from collalgo.launch.plan import launch_plan
from collalgo.launch.ssh import SshLaunch

HOSTS = (Host("a", 2), Host("b", 1))

#: Variables of batch systems, of which the machine of the tests may have some.
BATCH = (*SRUN, "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE",
         "LSB_JOBID", "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS",
         "PBS_NODEFILE", "PE_HOSTFILE", "COLLALGO_RSH")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_batch_system(monkeypatch):
    for name in BATCH:
        monkeypatch.delenv(name, raising=False)


def planned(*arguments, **options):
    plan, _ = launch_plan(LaunchOptions(*arguments, **options))
    return plan


def test_without_hosts_the_ranks_run_here():
    plan = planned(["true"], 3)
    assert isinstance(plan, LocalLaunch)
    assert plan.scope is Scope.WHOLE_JOB
    assert [spec.rank for spec in plan.specs] == [0, 1, 2]
    assert len({spec.environment["COLLALGO_JOB"] for spec in plan.specs}) == 1
    for spec in plan.specs:
        position = RankPosition(spec.rank, 3, spec.rank, 3, 0, 1)
        assert environment.of_rank(position).items() <= spec.environment.items()
        assert "HOROVOD_RANK" not in spec.environment


def test_ranks_inside_a_rank_do_not_connect_to_its_store(monkeypatch):
    monkeypatch.setenv("COLLALGO_STORE", "127.0.0.1:1")
    for spec in planned(["true"], 2).specs:
        assert "COLLALGO_STORE" not in spec.environment


@pytest.mark.parametrize("size", [MAX_SLOTS + 1, 2_000_000])
def test_more_ranks_than_a_host_takes_are_refused(size):
    with pytest.raises(
        OptionError, match=f"{size} ranks are more than the {MAX_SLOTS}"
    ):
        planned(["true"], size)


def test_two_jobs_have_names_of_their_own():
    jobs = [planned(["true"], 1).specs[0].environment for _ in range(2)]
    assert jobs[0]["COLLALGO_JOB"] != jobs[1]["COLLALGO_JOB"]


@pytest.mark.parametrize(("size", "counts"), [(None, [2, 1]), (3, [2, 1]), (1, [1])])
def test_hosts_are_reached_by_ssh(size, counts):
    plan = planned(["true"], size, HOSTS)
    assert isinstance(plan, SshLaunch)
    assert [len(ranks) for ranks in plan.positions.values()] == counts


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(OptionError, match="the number of ranks is missing"):
        planned(["true"])
    with pytest.raises(OptionError, match="--mpi-args are for another launcher"):
        planned(["true"], 2, launcher_words=["-x"])
    with pytest.raises(OptionError, match="--mpi is for another launcher, but with"):
        planned(["true"], 2, launcher=Launcher.SSH, delegates=True)
    with pytest.raises(OptionError, match="--start-timeout is 0; pass some seconds"):
        LaunchOptions(["true"], 2, start_timeout=0)
    with pytest.raises(BootstrapError, match="4 ranks do not fit into 3 slots"):
        planned(["true"], 4, HOSTS)


@pytest.mark.parametrize(
    ("launcher", "pair"),
    [
        *(("mpiexec", pair) for pair in (MPICH, OPEN_MPI, PALS)),
        *[("jsrun", JSRUN), ("srun", SRUN[2:4])],
    ],
)
def test_one_of_several_launchers_of_another_is_refused(launcher, pair, monkeypatch):
    variable, of_size = pair
    if launcher != "mpiexec":  # for an MPI they set its variables, too
        for name, value in zip((*MPICH, *SRUN[:2]), "1470", strict=True):
            monkeypatch.setenv(name, value)
    if launcher == "jsrun":
        monkeypatch.delenv(SRUN[1])
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv(of_size, "4")
    words = rf"one of 4 launchers, .*{variable}=1.*`{launcher} -n 4 python.*-n 4 "
    with pytest.raises(OptionError, match=words):
        planned(["true"], 2)
    for name in (of_size, MPICH[1]):
        monkeypatch.setenv(name, "1")  # as under mpiexec -n 1
    assert planned(["true"], 2)


@pytest.mark.parametrize(
    ("variables", "who"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, "rank 1 of 4"),
        ({"COLLALGO_MEMBER": "m"}, "a rank"),  # an elastic one, whose world changes
    ],
)
def test_a_rank_of_ours_that_is_a_launcher_is_refused(variables, who, monkeypatch):
    for name, value in {"COLLALGO_JOB": "j", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=f"within {who} of another.* COLLALGO_JOB"):
        planned(["true"], 2)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert planned(["true"], 2)


def test_a_launcher_in_the_script_of_a_job_of_slurm_starts_its_ranks(monkeypatch):
    """sbatch runs it as process 0 of the job, which is no step of several."""
    for name, value in zip((SRUN[0], *SRUN[2:4]), "704", strict=True):
        monkeypatch.setenv(name, value)
    assert len(planned(["true"], 2).specs) == 2


def test_ranks_get_no_connection_of_an_mpi_to_its_launcher(monkeypatch):
    names = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE",
             "MPI_LOCALRANKID", "JSM_NAMESPACE_LOCAL_RANK")  # fmt: skip
    kept = {"OMPI_MCA_btl": "self", "MPIR_CVAR_DEBUG_HOLD": "0"}
    for name, value in {**dict.fromkeys(names, "1"), **kept}.items():
        monkeypatch.setenv(name, value)
    environment = planned(["true"], 1).specs[0].environment
    assert not environment.keys() & set(names)
    assert kept.items() <= environment.items()


def test_a_command_line_that_contradicts_itself_is_an_error_of_usage(tmp_path):
    words = [sys.executable, "-m", "collalgo", "run"]
    hosts = tmp_path / "hosts"
    hosts.write_text("a\n")
    for options, message in (
        (["true"], "the number of ranks is missing"),
        (["-n", "2", "--mpi-args", "-x", "true"], "--mpi-args are for another"),
        (["-n", "2", "--interfaces", "a b", "true"], "is not an interface's name"),
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
    name, content = json.loads(line)
    assert name == "run"
    plan = AgentJob.decode(content).plan()
    assert plan.scope is Scope.ONE_HOST
    assert [spec.rank for spec in plan.specs] == [2, 3]
    for spec in plan.specs:
        assert spec.environment["RANK"] == str(spec.rank)
        assert spec.environment["WORLD_SIZE"] == "4"
        assert spec.environment["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("binding", ["none", "core"])
@pytest.mark.parametrize("nics", [(), ("eth0", "ib0")])
def test_a_placement_connects_to_no_host(monkeypatch, tmp_path, binding, nics):
    shell = tmp_path / "rsh"
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/connected\n")
    shell.chmod(0o700)
    monkeypatch.setenv("COLLALGO_RSH", str(shell))
    plan = planned(["true"], hosts=HOSTS, binding=Binding(binding), interfaces=nics)
    found = plan.placement()
    ranks = [(rank.position.rank, rank.host, rank.cores) for rank in found.ranks]
    cores = "any" if binding == "none" else "by core, there"
    assert ranks == [(0, "a", cores), (1, "a", cores), (2, "b", cores)]
    chosen = ",".join(nics) or "a share of those that reach the other hosts"
    assert {rank.nics for rank in found.ranks} == {chosen}
    *agents, command = found.commands
    assert [line.split()[:3] for line in agents] == [
        [f"{host}:", str(shell), host] for host in "ab"
    ]
    assert command == "each rank: true"
    assert not (tmp_path / "connected").exists()
    alone = planned(["true"], hosts=HOSTS[:1], interfaces=nics).placement()
    assert {rank.nics for rank in alone.ranks} == {"none, by shared memory"}
