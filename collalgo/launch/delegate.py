"""``collalgo run --mpi``: let the mpiexec or srun at hand start the ranks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from collalgo.errors import BootstrapError
from collalgo.launch.hosts import Host


def command_line(
    command: Sequence[str], size: int, hosts: Sequence[Host] = ()
) -> list[str]:
    """What starts so many ranks, in an allocation of Slurm by srun.

    Raises
    ------
    BootstrapError
        If there is nothing that starts ranks.
    """
    if "SLURM_JOB_ID" in os.environ and (srun := shutil.which("srun")):
        names = ["--nodelist", ",".join(host.name for host in hosts)] if hosts else []
        return [srun, "-n", str(size), *names, *command]
    beside = str(Path(sys.executable).parent / "mpiexec")
    mpiexec = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if mpiexec is None:
        raise BootstrapError(
            "there is neither an mpiexec nor, in an allocation of Slurm, an srun; "
            "install one: pip install collalgo[mpi]"
        )
    named = ",".join(f"{host.name}:{host.slots}" for host in hosts)
    options = ["-n", str(size)]
    if maker_of(mpiexec) == "MPICH":
        options += ["-hosts", named] if hosts else []
    else:
        options += ["--host", named] if hosts else []
        options += ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [mpiexec, *options, *command]


def maker_of(mpiexec: str) -> str:
    """Whose an mpiexec is: MPICH (or a descendant), Open MPI, or nothing known."""
    said = subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, check=False
    ).stdout
    return "MPICH" if "HYDRA" in said else "Open MPI" if "Open MPI" in said else ""
