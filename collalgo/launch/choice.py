"""Who starts the ranks of a job, and why."""

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from collalgo.launch.allocation import Allocation, allocation
from collalgo.launch.batch_command import in_lsf, in_slurm
from collalgo.launch.hosts import Host
from collalgo.launch.options import Launcher, LaunchOptions


class Starter(Enum):
    """Who starts the ranks."""

    HERE = "collalgo itself, on this host"
    SSH = "collalgo itself, by ssh on other hosts"
    MPI = "the installed mpiexec"
    SLURM = "srun"
    LSF = "jsrun"


class Choice(NamedTuple):
    """Who starts the ranks, why, and on which hosts; none: on those that it knows."""

    starter: Starter
    reason: str
    hosts: Sequence[Host] = ()

    def __str__(self) -> str:
        return f"{self.starter.value} ({self.reason})"


def choose(
    options: LaunchOptions, environment: Mapping[str, str] | None = None
) -> Choice:
    """Who starts the ranks.

    The user decides, by a launcher or by hosts, or else the batch system whose job this
    process is in, if it has several hosts.
    """
    env = os.environ if environment is None else environment
    if options.launcher is Launcher.AUTO and options.hosts and not options.delegates:
        return Choice(Starter.SSH, "the hosts are named", options.hosts)
    given = allocation(env)
    hosts = options.hosts or (given.hosts if given else ())
    if options.launcher is not Launcher.AUTO:
        return _asked(options, hosts)
    if options.delegates:
        return _delegated(options, hosts, env)
    if given is not None and len(given.hosts) > 1:
        return _in_job(given, env)
    return Choice(Starter.HERE, "no hosts are named")


def _asked(options: LaunchOptions, hosts: Sequence[Host]) -> Choice:
    """What the user has chosen; a batch system knows the hosts of its job."""
    reason = f"--launcher {options.launcher.value} was given"
    if options.launcher is Launcher.SSH:
        starter = Starter.SSH if hosts else Starter.HERE
        return Choice(starter, reason, hosts)
    starter = Starter[options.launcher.name]
    if starter is Starter.SLURM:
        hosts = options.hosts
    elif starter is Starter.LSF:
        hosts = options.hosts or _computing(hosts)
    return Choice(starter, reason, hosts)


def _computing(hosts: Sequence[Host]) -> Sequence[Host]:
    """The hosts of a job of LSF that jsrun uses: not the one that runs its script.

    LSF counts that one first, with a single slot, if it does not compute.
    """
    first = hosts[0].slots if hosts else 0
    return hosts[1:] if first == 1 and any(h.slots > 1 for h in hosts) else hosts


def _delegated(
    options: LaunchOptions, hosts: Sequence[Host], env: Mapping[str, str]
) -> Choice:
    """The launcher of the batch system, or else mpiexec."""
    if in_slurm(env):
        return Choice(Starter.SLURM, "--mpi was given in a job of Slurm", options.hosts)
    if in_lsf(env):
        own = options.hosts or _computing(hosts)
        return Choice(Starter.LSF, "--mpi was given in a job of LSF", own)
    return Choice(Starter.MPI, "--mpi was given", hosts)


def _in_job(given: Allocation, env: Mapping[str, str]) -> Choice:
    """The launcher of the batch system that has given several hosts, or ssh."""
    words = f"{given.source} names {len(given.hosts)} hosts of {given.system}"
    if given.system == "Slurm":
        if "SLURM_STEP_ID" in env:
            return Choice(Starter.HERE, "this is a step of a job of Slurm")
        if in_slurm(env):
            return Choice(Starter.SLURM, words)
    if given.system == "LSF" and in_lsf(env):
        return Choice(Starter.LSF, words, _computing(given.hosts))
    return Choice(Starter.SSH, words, given.hosts)
