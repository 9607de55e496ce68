"""The command lines of srun and jsrun."""

import os
import shutil
from collections.abc import Mapping

from collalgo.errors import BootstrapError
from collalgo.launch.mpi_command import Line, Step


def srun_line(step: Step) -> Line:
    """The command line of srun: a step of the job of Slurm that this process is in.

    Raises
    ------
    BootstrapError
        If there is no srun, or no job.
    """
    program = _program("srun", "SLURM_JOB_ID", "a job of Slurm: salloc or sbatch")
    words = [program, "-n", str(step.ranks), *_srun_hosts(step)]
    return Line([*words, "--kill-on-bad-exit=1", "--cpu-bind=none"], {})


def _srun_hosts(step: Step) -> list[str]:
    """The nodes of the user; those of the job need not be named."""
    if not step.hosts:
        return []
    counts = {host.slots for host in step.hosts}
    if len(counts) == 1:
        names = ",".join(host.name for host in step.hosts)
        return ["--nodelist", names, f"--ntasks-per-node={counts.pop()}"]
    names = ",".join(host.name for host in step.hosts for _ in range(host.slots))
    return ["--nodelist", names, "--distribution=arbitrary"]


def jsrun_line(step: Step) -> Line:
    """The command line of jsrun: a resource set with all cores and GPUs on each host.

    Raises
    ------
    BootstrapError
        If there is no jsrun, or the hosts have different numbers of ranks.
    """
    program = _program("jsrun", "LSB_JOBID", "a job of LSF: bsub")
    counts = {host.slots for host in step.hosts}
    if len(counts) != 1:
        raise BootstrapError(
            f"jsrun starts the same number of ranks on each host, but {step.slots} "
            "are wanted; pass an -n that is a multiple of the hosts, or use --launcher "
            "ssh"
        )
    words = ["--nrs", str(len(step.hosts)), "--tasks_per_rs", str(counts.pop())]
    words += ["--cpu_per_rs", "ALL_CPUS", "--gpu_per_rs", "ALL_GPUS"]
    words += ["--rs_per_host", "1", "--bind", "none", "--launch_distribution", "packed"]
    return Line([program, *words, "--exit_on_error", "1"], {})


def _program(name: str, variable: str, where: str) -> str:
    """The path of a program of a batch system in whose job this process is."""
    found = shutil.which(name)
    if found is None or variable not in os.environ:
        missing = f"there is no {name}" if found is None else f"{variable} is not set"
        raise BootstrapError(f"{missing}; {name} needs {where}")
    return found


def in_slurm(env: Mapping[str, str]) -> bool:
    """Whether srun can start a step here: in a job, but not in a step of it."""
    return (
        "SLURM_JOB_ID" in env
        and "SLURM_STEP_ID" not in env
        and shutil.which("srun") is not None
    )


def in_lsf(env: Mapping[str, str]) -> bool:
    """Whether jsrun can start ranks here."""
    return (
        "LSB_JOBID" in env
        and "JSM_NAMESPACE_RANK" not in env
        and shutil.which("jsrun") is not None
    )
