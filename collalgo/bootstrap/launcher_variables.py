"""The variables by which launchers number their ranks, and checks of their values."""

import re
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from collalgo.base.arguments import shown
from collalgo.base.environment import JOB, STORE
from collalgo.base.integers import integer
from collalgo.errors import BootstrapError

#: The variables of rank, size, local size and local rank, as torchrun and horovodrun
#: call them.
TORCH = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
HOROVOD = (
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_LOCAL_RANK",
)

#: The variables of rank and size of Open MPI, and of MPICH and what derives from it.
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
MPICH = ("PMI_RANK", "PMI_SIZE")

#: Those of MVAPICH2, of jsrun, and of PALS on systems of HPE Cray.
MVAPICH = ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE")
JSRUN = ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")
PALS = ("PALS_RANKID", "PALS_SIZE")

#: The rank of PMIx, which tells no size.
PMIX_RANK = "PMIX_RANK"

#: The variables of a step of Slurm: job, step, rank, size, number of nodes. In a shell
#: within an allocation there is a job, but no step.
SRUN = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
)

#: The variables of local rank and local size of Open MPI (and of jsrun for it), of
#: jsrun, and of Hydra, the process manager of MPICH and Intel MPI.
OPEN_MPI_LOCAL = "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
JSRUN_LOCAL = "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"
HYDRA_LOCAL = "MPI_LOCALRANKID", "MPI_LOCALNRANKS"

#: The variable of the number of restarts of a rank, as torchrun calls it.
RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"

#: The variables of rank and size of each launcher.
PAIRS = (TORCH[:2], HOROVOD[:2], OPEN_MPI, MPICH, MVAPICH, JSRUN, PALS)

#: The variables of the rank, the size and the connection to the launcher, which an MPI
#: reads when it starts: some by name, the others by prefix.
OF_MPI = {*MPICH, *HYDRA_LOCAL, *PALS, "PMI_FD", "PMI_PORT", "PMI_ID"}
OF_MPI_PREFIXES = (
    *("OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_"),
    *("PMIX_SERVER_", "PMIX_RANK", "PMIX_NAMESPACE"),
)

#: Prefixes of variables of launchers and batch systems that other hosts do not get.
OF_HOST_PREFIXES = ("SLURM_", "PMI_", "OMPI_")

#: The most ranks of a job.
MOST_RANKS = 1 << 17

#: The greatest number of a port.
MOST_PORT = 65535


def is_of_mpi(name: str) -> bool:
    """Whether a variable tells a rank of an MPI who it is, and how it connects."""
    return name in OF_MPI or name.startswith(OF_MPI_PREFIXES)


class Place(NamedTuple):
    """One of several ranks that another launcher has started."""

    launcher: str
    variable: str
    rank: str
    size: str


def place_in_job(env: Mapping[str, str]) -> Place | None:
    """The place of this process if it is one of several ranks of another launcher.

    An srun or jsrun for an MPI sets variables of both.
    """
    pairs = [("jsrun", *JSRUN), *(("mpiexec", *pair) for pair in PAIRS[2:])]
    if env.get(SRUN[1], "").strip():
        pairs.insert(0, ("srun", *SRUN[2:4]))
    for launcher, rank, size in pairs:
        if env.get(rank, "").strip() and env.get(size, "").strip() not in ("", "1"):
            return Place(launcher, rank, env[rank].strip(), env[size].strip())
    return None


def refuse_half(env: Mapping[str, str]) -> None:
    """Refuse a rank without a size, or a size above 1 without a rank."""
    for rank, size in PAIRS:
        found = {name: env.get(name, "").strip() for name in (rank, size)}
        given = next((name for name in found if found[name]), rank)
        missing = size if given == rank else rank
        if found[given] and not found[missing] and (given, found[size]) != (size, "1"):
            raise BootstrapError(
                f"{given}={found[given]} is set, but {missing} is not; set both on "
                f"every rank, or unset {given} for a world of one"
            )
    if rank := env.get(PMIX_RANK, "").strip():
        raise BootstrapError(
            f"{PMIX_RANK}={rank} is set, but no variable of a launcher tells the size, "
            f"and PMIx has none; set {TORCH[0]} and {TORCH[1]} on every rank, start "
            f"them by collalgo run --mpi, or unset {PMIX_RANK} for a world of one"
        )


def in_range(
    env: Mapping[str, str], launcher: str, names: tuple[str, str]
) -> tuple[int, int]:
    """The rank and the size that a launcher sets."""
    rank, size = (number(env, name) for name in names)
    if not 0 <= rank < size <= MOST_RANKS:
        raise BootstrapError(
            f"{launcher} sets {names[0]}={rank} and {names[1]}={size}; need 0 <= rank "
            f"< size <= {MOST_RANKS}"
        )
    return rank, size


def local_size(
    env: Mapping[str, str], launcher: str, names: tuple[str, str, str, str], size: int
) -> int:
    """The number of ranks on this host, by default all; a local rank is below it."""
    _, of_size, name, of_local_rank = names
    here = number(env, name) if env.get(name) else size
    if not 0 < here <= size:
        raise BootstrapError(
            f"{launcher} sets {of_size}={size} but {name}={here}; need 1 <= {name} <= "
            f"{of_size}"
        )
    local = number(env, of_local_rank) if env.get(of_local_rank, "").strip() else 0
    if not 0 <= local < here:
        raise BootstrapError(
            f"{launcher} sets {of_local_rank}={local}, but {here} ranks are on this "
            f"host; need 0 <= {of_local_rank} < {name if env.get(name) else of_size}"
        )
    return here


def number(env: Mapping[str, str], name: str) -> int:
    """The value of a variable.

    Raises
    ------
    BootstrapError
        If it is not set, or is not an integer.
    """
    if not env.get(name, "").strip():
        known = (JOB.name, STORE.name, *TORCH, *HOROVOD, *chain(*PAIRS[2:]), *SRUN)
        others = [other for other in known if env.get(other, "").strip()]
        verb = "is" if len(others) == 1 else "are"
        raise BootstrapError(
            f"the environment variable {name} is not set, but {' and '.join(others)} "
            f"{verb}; start all ranks by their launcher, or unset its variables"
        )
    if re.fullmatch("-?[0-9]{1,20}", env[name].strip()):
        return int(env[name])
    raise BootstrapError(
        f"the environment variable {name} is {shown(env[name])}, not a number; "
        "set it to one, or unset it"
    )


def port_of(env: Mapping[str, str], name: str) -> int:
    """The port that a variable gives.

    Raises
    ------
    BootstrapError
        If it is not a port.
    """
    try:
        return integer(int(env[name]), name, "init", 1, MOST_PORT)
    except ValueError:
        raise BootstrapError(
            f"the environment variable {name} is {shown(env[name])}, not a port; set "
            f"it to a number from 1 to {MOST_PORT}"
        ) from None
