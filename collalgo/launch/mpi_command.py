"""The command lines by which the mpiexec of each MPI starts ranks on some hosts."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collalgo.errors import BootstrapError
from collalgo.launch import environment
from collalgo.launch.hosts import Host
from collalgo.launch.options import LaunchOptions
from collalgo.launch.remote_shell import RemoteShell, remote_shell

#: The MPIs, by the text with which their mpiexec gives its version.
OPEN_MPI, MPICH, INTEL = "Open MPI", "MPICH", "Intel MPI"
TEXTS = (("Intel(R) MPI Library", INTEL), ("HYDRA", MPICH), ("Open MPI", OPEN_MPI),
         ("OpenRTE", OPEN_MPI), ("PRRTE", OPEN_MPI))  # fmt: skip

#: Hosts from which on mpirun of Open MPI reaches each host itself: a tree of ssh needs
#: keys and resolvable names on all hosts, and fails slowly.
TREE_HOSTS = 64

#: Names of variables that a command line can have.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Mpiexec(NamedTuple):
    """An installed mpiexec.

    Attributes
    ----------
    path : str
        The program.
    vendor : str
        Its MPI; empty if it is not recognised.
    major : int
        The major version, if that is known, else 0.
    """

    path: str
    vendor: str
    major: int


@dataclass(frozen=True)
class Step:
    """Ranks that another launcher starts.

    Attributes
    ----------
    ranks : int
        Their number.
    hosts : sequence of Host
        Their hosts, with the ranks of each; none: the launcher decides.
    options : LaunchOptions
        How to start them.
    """

    ranks: int
    hosts: Sequence[Host]
    options: LaunchOptions

    @property
    def slots(self) -> str:
        """The hosts as ``a:4,b:4``."""
        return ",".join(f"{host.name}:{host.slots}" for host in self.hosts)

    @property
    def shell(self) -> RemoteShell | None:
        """The remote shell, if it is not the default of the launcher."""
        shell = remote_shell(self.options.ssh)
        asked = shell.source is not None or self.options.ssh.words
        return shell if asked and self.hosts else None


class Line(NamedTuple):
    """A command line, before the command of a rank, and additional variables."""

    words: list[str]
    variables: dict[str, str]


def find_mpiexec() -> Mpiexec:
    """The mpiexec of this Python's environment, or else the one on the PATH.

    Raises
    ------
    BootstrapError
        If no mpiexec is found.
    """
    beside = str(Path(sys.executable).parent / "mpiexec")
    found = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise BootstrapError(
            "there is no mpiexec; install one: pip install collalgo[mpi]"
        )
    return mpiexec_at(found)


def mpiexec_at(path: str) -> Mpiexec:
    """The mpiexec of a path, by the text of its version."""
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    ).stdout
    return Mpiexec(path, *recognised(said))


def recognised(said: str) -> tuple[str, int]:
    """The MPI, and its major version, from the text of its version."""
    vendor = next((name for text, name in TEXTS if text in said), "")
    number = re.search(r"(\d{1,4})\.\d", said)
    return vendor, int(number[1]) if number else 0


def mpi_line(mpiexec: Mpiexec, step: Step) -> Line:
    """The command line of an mpiexec for a step.

    Raises
    ------
    BootstrapError
        If it does not support the options.
    """
    if not mpiexec.vendor:
        if step.hosts or step.options.interfaces:
            raise BootstrapError(
                f"{mpiexec.path} is of an unknown MPI: it can start ranks on this host "
                "only; use Open MPI, MPICH or Intel MPI, or --launcher ssh"
            )
        return Line([mpiexec.path, "-n", str(step.ranks)], {})
    if address := next((h.name for h in step.hosts if ":" in h.name), None):
        raise BootstrapError(
            f"{mpiexec.path} takes no IPv6 addresses, as {address}; give the host a "
            "name (/etc/hosts), or use --launcher ssh"
        )
    options, variables = OPTIONS[mpiexec.vendor](mpiexec, step)
    return Line([mpiexec.path, "-n", str(step.ranks), *options], variables)


def _open_mpi(mpiexec: Mpiexec, step: Step) -> Line:
    """Options of mpirun: of PRRTE from version 5 on, of ORTE before."""
    words = ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
    words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    if step.hosts:
        words += ["--host", step.slots]
        words += [word for name in exported() for word in ("-x", name)]
    settings = _open_mpi_settings(mpiexec, step)
    return Line([*words, *(word for each in settings for word in each)], {})


def _open_mpi_settings(mpiexec: Mpiexec, step: Step) -> list[tuple[str, str, str]]:
    """How mpirun reaches the hosts: option, parameter and value."""
    daemons, plm, network = (
        ("--prtemca", "plm_ssh", "prte_if_include")
        if mpiexec.major >= 5
        else ("--mca", "plm_rsh", "oob_tcp_if_include")
    )
    settings: list[tuple[str, str, str]] = []
    if step.shell:
        settings += _open_mpi_shell(step.shell, step.options.ssh.words, daemons, plm)
    if step.options.interfaces:
        nics = ",".join(step.options.interfaces)
        settings += [(daemons, network, nics), ("--mca", "btl_tcp_if_include", nics)]
    if len(step.hosts) >= TREE_HOSTS:
        settings += [
            (daemons, f"{plm}_no_tree_spawn", "1"),
            (daemons, f"{plm}_num_concurrent", str(len(step.hosts))),
        ]
    return settings


def _open_mpi_shell(
    shell: RemoteShell, extra: Sequence[str], daemons: str, plm: str
) -> list[tuple[str, str, str]]:
    """The remote shell: as an agent, or the arguments of ssh."""
    if shell.source is not None:
        return [(daemons, f"{plm}_agent", shlex.join(shell.words))]
    return [(daemons, f"{plm}_args", shlex.join(extra))]


def _mpich(_mpiexec: Mpiexec, step: Step) -> Line:
    """Options of the mpiexec of MPICH, which passes all variables on."""
    words, variables = _hydra(step, "-launcher", "-launcher-exec")
    return Line([*(["-hosts", step.slots] if step.hosts else []), *words], variables)


def _intel(_mpiexec: Mpiexec, step: Step) -> Line:
    """Options of the mpiexec of Intel MPI, which passes all variables on."""
    words, variables = _hydra(step, "-bootstrap", "-bootstrap-exec")
    # Its lists of hosts have no numbers of ranks, and its default order is by hosts.
    hosts = ",".join(host.name for host in step.hosts for _ in range(host.slots))
    named = ["-hosts", hosts, "-ppn", "1"] if step.hosts else []
    pinning = {"I_MPI_PIN": "0"}
    return Line([*named, *words], pinning | variables)


def _hydra(step: Step, launcher: str, program: str) -> Line:
    """The options that MPICH and Intel MPI share: their process manager is Hydra."""
    words, variables = [], {}
    if step.shell:
        first, *rest = step.shell.words
        words += [launcher, "ssh", program, shutil.which(first) or first]
        variables = {"HYDRA_LAUNCHER_EXTRA_ARGS": shlex.join(rest)} if rest else {}
    if step.options.interfaces:
        words += ["-iface", step.options.interfaces[0]]
    return Line(words, variables)


OPTIONS: dict[str, Callable[[Mpiexec, Step], Line]] = {
    OPEN_MPI: _open_mpi,
    MPICH: _mpich,
    INTEL: _intel,
}


def exported() -> list[str]:
    """The names of the variables that ranks on other hosts get."""
    return sorted(name for name in environment.forwarded() if NAME.fullmatch(name))
