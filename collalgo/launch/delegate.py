"""``collalgo run --mpi``: leave the start of the ranks to mpiexec or srun."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collalgo.errors import BootstrapError
from collalgo.launch.hosts import Host


@dataclass(frozen=True)
class DelegatedLaunch:
    """The plan to become the launcher of an MPI or of Slurm.

    Attributes
    ----------
    line : sequence of str
        Its command line.
    """

    line: Sequence[str]

    @classmethod
    def of_job(
        cls, command: Sequence[str], size: int, hosts: Sequence[Host] = ()
    ) -> "DelegatedLaunch":
        """The plan to run a command on ``size`` ranks.

        Raises
        ------
        BootstrapError
            If there is neither an mpiexec nor an srun.
        """
        if "SLURM_JOB_ID" in os.environ and (srun := shutil.which("srun")):
            return cls([srun, *_srun_options(size, hosts), *command])
        mpiexec = _mpiexec()
        is_mpich = mpi_vendor(mpiexec) == "MPICH"
        options = _mpich_options(hosts) if is_mpich else _open_mpi_options(hosts)
        return cls([mpiexec, "-n", str(size), *options, *command])

    def run(self) -> int:
        """Show the command line and replace this process by the launcher."""
        sys.stderr.write(f"collalgo run: {shlex.join(self.line)}\n")
        sys.stderr.flush()
        os.execv(self.line[0], list(self.line))


def _srun_options(size: int, hosts: Sequence[Host]) -> list[str]:
    names = ["--nodelist", ",".join(host.name for host in hosts)] if hosts else []
    return ["-n", str(size), *names]


def _mpich_options(hosts: Sequence[Host]) -> list[str]:
    return ["-hosts", _slots(hosts)] if hosts else []


def _open_mpi_options(hosts: Sequence[Host]) -> list[str]:
    options = ["--host", _slots(hosts)] if hosts else []
    options += ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return options


def _slots(hosts: Sequence[Host]) -> str:
    return ",".join(f"{host.name}:{host.slots}" for host in hosts)


def _mpiexec() -> str:
    """The mpiexec of this Python's environment, or else the one on the PATH."""
    beside = str(Path(sys.executable).parent / "mpiexec")
    found = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise BootstrapError(
            "there is neither an mpiexec nor, in an allocation of Slurm, an srun; "
            "install one: pip install collalgo[mpi]"
        )
    return found


def mpi_vendor(mpiexec: str) -> str:
    """The MPI of an mpiexec: MPICH (or a descendant), Open MPI, or "" for others."""
    said = subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, check=False
    ).stdout
    return "MPICH" if "HYDRA" in said else "Open MPI" if "Open MPI" in said else ""
