"""Launchers that others have: who is chosen, and by which command line they start."""

import os
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from collalgo.errors import BootstrapError
from collalgo.launch import delegate
from collalgo.launch.delegate import DelegatedLaunch
from collalgo.launch.hosts import Host
from collalgo.launch.mpi_command import INTEL, MPICH, OPEN_MPI, TREE_HOSTS, recognised
from collalgo.launch.options import Launcher, LaunchOptions, SshOptions, Starter
from collalgo.launch.plan import choose, launch_plan
from tests.launch.test_plan import BATCH
from tests.support.mpiexec import ENVIRONMENTS, python_of

HOSTS = (Host("a", 2), Host("b", 1))


#: What the mpiexec of each MPI says of its version.
VERSIONS = {
    "mpich": "HYDRA build details:\n    Version:  4.2",
    "open_mpi_4": "mpiexec (OpenRTE) 4.1.4",
    "open_mpi_5": "mpiexec (Open MPI) 5.0.6",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701",
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put programs on the PATH, which say something."""
    for name in BATCH:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))

    def write(name, says=""):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ncat <<END\n{says}\nEND\n")
        program.chmod(0o755)
        return str(program)

    return write


def line_of(*arguments, **options):
    plan, _ = launch_plan(LaunchOptions(*arguments, **options))
    assert isinstance(plan, DelegatedLaunch)
    return plan


def has(line, *words):
    """Whether some words follow each other in a line."""
    return any(tuple(line[i : i + len(words)]) == words for i in range(len(line)))


def test_mpis_are_recognised_by_their_version():
    found = {name: recognised(text) for name, text in VERSIONS.items()}
    assert found == {
        "mpich": (MPICH, 4),
        "open_mpi_4": (OPEN_MPI, 4),
        "open_mpi_5": (OPEN_MPI, 5),
        "intel": (INTEL, 2021),
    }
    assert recognised("mpiexec of my own 7.1") == ("", 7)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mpich", ["-hosts", "a:2,b:1"]),
        ("open_mpi_4", ["--host", "a:2,b:1"]),
        ("open_mpi_5", ["--host", "a:2,b:1"]),
        ("intel", ["-hosts", "a,a,b"]),
    ],
)
@pytest.mark.parametrize("hosts", [(), HOSTS])
def test_an_mpi_gets_its_own_options(name, words, hosts, install):
    program = install("mpiexec", VERSIONS[name])
    line = line_of(["x"], 3, hosts, delegates=True, launcher_words=["-more"]).line
    assert line[:3] == [program, "-n", "3"]
    assert has(line, *words) == bool(hosts)
    assert has(line, "--rank-counts", "2,1", "--", "x") == bool(hosts)
    assert line[-1] == "x"
    assert "-more" in line
    assert line.count("--bind-to") <= 1  # mpirun reads those of the ranks, too
    foreign = {"-hosts", "--host", "-launcher", "-bootstrap"} - set(words[:1])
    assert not foreign & set(line)


def test_an_unknown_mpi_starts_ranks_here_only(install):
    program = install("mpiexec", "mpiexec of my own")
    assert line_of(["x"], 3, delegates=True).line[:3] == [program, "-n", "3"]
    with pytest.raises(BootstrapError, match="is of an unknown MPI"):
        line_of(["x"], 3, HOSTS, delegates=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("open_mpi_4", [("--mca", "plm_rsh_args", "-p 7 -o A=b")]),
        ("open_mpi_5", [("--prtemca", "plm_ssh_args", "-p 7 -o A=b")]),
        ("mpich", [("-launcher", "ssh")]),
        ("intel", [("-bootstrap", "ssh")]),
    ],
)
def test_options_of_ssh_reach_the_launcher(name, words, install):
    install("mpiexec", VERSIONS[name])
    ssh = SshOptions(7, None, ["A=b"])
    plan = line_of(["x"], 3, HOSTS, delegates=True, ssh=ssh)
    assert all(has(plan.line, *each) for each in words)
    if name in ("mpich", "intel"):
        assert "-p 7 -o A=b" in plan.variables["HYDRA_LAUNCHER_EXTRA_ARGS"]


@pytest.mark.parametrize("variable", ["COLLALGO_RSH", "OMPI_MCA_plm_rsh_agent"])
def test_another_remote_shell_reaches_the_launcher(variable, install, monkeypatch):
    agent = install("kubexec.sh")
    monkeypatch.setenv(variable, agent)
    install("mpiexec", VERSIONS["open_mpi_5"])
    line = line_of(["x"], 3, HOSTS, delegates=True).line
    assert has(line, "--prtemca", "plm_ssh_agent", agent)
    install("mpiexec", VERSIONS["mpich"])
    line = line_of(["x"], 3, HOSTS, delegates=True).line
    assert has(line, "-launcher", "ssh", "-launcher-exec", agent)
    with pytest.raises(BootstrapError, match=f"-p 7 is for ssh, but {variable} names"):
        line_of(["x"], 3, HOSTS, delegates=True, ssh=SshOptions(7))


@pytest.mark.parametrize("name", list(VERSIONS))
def test_interfaces_reach_the_launcher_and_the_ranks(name, install):
    install("mpiexec", VERSIONS[name])
    plan = line_of(["x"], 3, HOSTS, delegates=True, interfaces=("eth0", "ib0"))
    expected = {
        "open_mpi_4": ("--mca", "oob_tcp_if_include", "eth0,ib0"),
        "open_mpi_5": ("--prtemca", "prte_if_include", "eth0,ib0"),
    }.get(name, ("-iface", "eth0"))
    assert has(plan.line, *expected)
    assert plan.variables["COLLALGO_INTERFACES"] == "eth0,ib0"
    if name.startswith("open_mpi"):
        assert has(plan.line, "--mca", "btl_tcp_if_include", "eth0,ib0")


def test_open_mpi_gets_all_variables_by_name_and_reaches_many_hosts_itself(
    install, monkeypatch
):
    monkeypatch.setenv("MY_SECRET", "value")
    monkeypatch.setenv("SLURM_FOO", "1")
    monkeypatch.setenv("BASH_FUNC_f%%", "() { true; }")
    install("mpiexec", VERSIONS["open_mpi_5"])
    for count in (2, TREE_HOSTS - 1, TREE_HOSTS):
        hosts = [Host(f"h{number}", 1) for number in range(count)]
        line = line_of(["x"], hosts=hosts, delegates=True).line
        assert has(line, "-x", "MY_SECRET")
        assert not has(line, "-x", "SLURM_FOO")
        assert not any("value" in word or "%" in word for word in line)
        tree = has(line, "--prtemca", "plm_ssh_no_tree_spawn", "1")
        assert tree == (count >= TREE_HOSTS)


def test_srun_starts_a_step_of_its_job(install, monkeypatch):
    program = install("srun")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    line = line_of(["x"], 3, HOSTS, delegates=True).line
    assert line[:3] == [program, "-n", "3"]
    assert has(line, "--nodelist", "a,a,b", "--distribution=arbitrary")
    line = line_of(["x"], 2, (Host("a", 1), Host("b", 1)), delegates=True).line
    assert has(line, "--nodelist", "a,b", "--ntasks-per-node=1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "3(x2)")
    plan, choice = launch_plan(LaunchOptions(["x"]))
    assert plan.line[:3] == [program, "-n", "6"]
    assert choice.reason == "SLURM_JOB_NODELIST names 2 hosts of Slurm"
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert choose(LaunchOptions(["x"])).starter is Starter.HERE


def test_jsrun_starts_the_same_number_on_each_host(install, monkeypatch):
    program = install("jsrun")
    monkeypatch.setenv("LSB_JOBID", "7")
    monkeypatch.setenv("LSB_MCPU_HOSTS", "batch 1 a 4 b 4")
    plan, choice = launch_plan(LaunchOptions(["x"]))
    assert choice.starter is Starter.LSF
    assert plan.line[:5] == [program, "--nrs", "2", "--tasks_per_rs", "4"]
    with pytest.raises(BootstrapError, match="the same number of ranks on each host"):
        launch_plan(LaunchOptions(["x"], 7))


def test_the_user_decides_before_the_batch_system(install, monkeypatch):
    install("srun")
    install("mpiexec", VERSIONS["mpich"])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    for options, starter in (
        ({}, Starter.SLURM),
        ({"hosts": HOSTS}, Starter.SSH),
        ({"hosts": HOSTS, "delegates": True}, Starter.SLURM),
        ({"launcher": Launcher.SSH}, Starter.SSH),
        ({"launcher": Launcher.MPI}, Starter.MPI),
        ({"launcher": Launcher.SLURM}, Starter.SLURM),
    ):
        assert choose(LaunchOptions(["x"], 2, **options)).starter is starter
    with pytest.raises(BootstrapError, match=r"no jsrun; jsrun needs a job"):
        line_of(["x"], 2, launcher=Launcher.LSF)


@pytest.mark.mpi
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_real_mpis_start_ranks_with_all_options(name, tmp_path):
    python = python_of(name)
    script = "echo $RANK $LOCAL_SIZE $CROSS_SIZE $HOROVOD_RANK"
    # More than mpiexec reads at once, and with the end of a line in no read.
    script += "; yes $(printf %900s | tr ' ' $RANK) | head -n 3000 "
    script += "| dd bs=200000 iflag=fullblock 2>/dev/null"
    done = subprocess.run(
        [python, "-m", "collalgo", "run", "--mpi", "-n", "2", "--env", "horovod",
         "--bind-to", "numa", "--log-dir", tmp_path, "sh", "-c", script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = Counter(done.stdout.split("\n"))
    each = {"0 2 1 0": 1, "1 2 1 1": 1, "": 1}
    assert found == {**each, "0" * 900: 3000, "1" * 900: 3000}, done.stderr
    own = (tmp_path / "rank.1" / "stdout").read_text()
    assert own == "1 2 1 1\n" + ("1" * 900 + "\n") * 3000


def test_a_rank_without_a_launcher_is_told_so(tmp_path):
    bare = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "collalgo.launch.delegated_rank", "--", "true"],
        env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this process has no rank" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGSTOP])
def test_a_launcher_passes_signals_on_itself_but_those_that_it_cannot(
    number, monkeypatch
):
    sent = []
    for name in ("signal_children", "signal_groups"):
        monkeypatch.setattr(delegate, name, lambda *_, name=name: sent.append(name))
    child = SimpleNamespace(process=SimpleNamespace(pid=1))
    delegate._send(child, number)
    stops = number == signal.SIGSTOP
    assert sent == ["signal_children" if stops else "signal_groups"]
