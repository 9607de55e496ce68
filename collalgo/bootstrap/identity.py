"""The rank of this process, and the size of its job, from the launcher's variables."""

import os
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from collalgo.errors import BootstrapError

#: The variables of rank, size and local size, as torchrun and horovodrun call them.
TORCH = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
HOROVOD = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE")

#: The variables of a step of Slurm: job, step, rank, size, number of nodes.
SRUN = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
)


class Route(Enum):
    """How the ranks of a job connect."""

    HOST = "all of them are on this host"
    STORE = "over a store whose address the launcher sets"
    LAUNCHER_STORE = "over a store that a foreign launcher holds"
    MPI = "over MPI, or PMI"


class Identity(NamedTuple):
    """A rank as its launcher numbers it.

    ``job`` is a name that only the ranks of this job know, if the launcher sets one.
    """

    rank: int
    size: int
    job: str
    launcher: str
    route: Route = Route.HOST


def identity(environment: Mapping[str, str] | None = None) -> Identity:
    """The identity of this process; without launcher the only rank of its job.

    Raises
    ------
    BootstrapError
        If the launcher has started ranks on several hosts that cannot connect, or a
        variable of it is malformed.
    """
    env = os.environ if environment is None else environment
    if "COLLALGO_STORE" in env or "COLLALGO_JOB" in env:
        job = env.get("COLLALGO_JOB") or env["COLLALGO_STORE"]
        across = Route.STORE if "COLLALGO_STORE" in env else None
        return _by_variables(env, job, "collalgo run", across=across)
    if "RANK" in env and "WORLD_SIZE" in env:
        return _of_torchrun(env)
    if (found := _of_mpiexec(env)) is not None:
        return found
    # In a shell within an allocation of Slurm there is a job, but no step.
    if all(name in env for name in SRUN):
        return _of_srun(env)
    if "HOROVOD_RANK" in env and "HOROVOD_SIZE" in env:
        return _of_horovodrun(env)
    return Identity(0, 1, "", "none")


def _of_torchrun(env: Mapping[str, str]) -> Identity:
    names = (
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
    )
    job = "torchrun/" + "/".join(env.get(name, "") for name in names)
    across = Route.LAUNCHER_STORE if torchrun_keeps_a_store(env) else None
    return _by_variables(env, job, "torchrun", across=across)


def _of_mpiexec(env: Mapping[str, str]) -> Identity | None:
    for launcher, rank, size in (
        ("mpiexec of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("mpiexec of MPICH", "PMI_RANK", "PMI_SIZE"),  # which srun may set, too
    ):
        if rank in env and size in env:
            numbers = _number(env, rank), _number(env, size)
            return Identity(*numbers, "", launcher, Route.MPI)
    return None


def _of_horovodrun(env: Mapping[str, str]) -> Identity:
    server = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
    job = "horovodrun/" + "/".join(env.get(name, "") for name in server)
    has_store = all(name in env for name in server)
    across = Route.LAUNCHER_STORE if has_store else None
    return _by_variables(env, job, "horovodrun", HOROVOD, across=across)


def torchrun_keeps_a_store(env: Mapping[str, str]) -> bool:
    """Whether the launcher is a torchrun over whose store its ranks can connect."""
    return env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _of_srun(env: Mapping[str, str]) -> Identity:
    """A rank of srun; ranks of one node connect there, whatever MPI srun has."""
    job, step, rank, size, nodes = SRUN
    numbers = _number(env, rank), _number(env, size)
    if _number(env, nodes) > 1:
        return Identity(*numbers, "", "srun", Route.MPI)
    return Identity(*numbers, f"srun/{env[job]}.{env[step]}", "srun")


def _by_variables(
    env: Mapping[str, str],
    job: str,
    launcher: str,
    names: tuple[str, str, str] = TORCH,
    *,
    across: Route | None = None,
) -> Identity:
    """A rank from the variables of its launcher.

    ``across`` is how ranks on several hosts can connect, if they can.
    """
    of_rank, of_size, of_local_size = names
    rank, size = _number(env, of_rank), _number(env, of_size)
    here = _number(env, of_local_size) if of_local_size in env else size
    if not 0 <= rank < size:
        raise BootstrapError(
            f"{launcher} sets {of_rank}={rank} and {of_size}={size}; need 0 <= rank < "
            "size"
        )
    if across is Route.STORE:
        return Identity(rank, size, job, launcher, across)
    if here == size:
        return Identity(rank, size, job, launcher)
    if across is None:
        raise BootstrapError(
            f"{launcher} runs {size} ranks but only {here} on this host, and sets no "
            "store over which ranks of several hosts could connect; set COLLALGO_STORE "
            "and COLLALGO_SECRET, or start them by collalgo run -H or mpiexec",
            rank=rank,
        )
    return Identity(rank, size, job, launcher, across)


def _number(env: Mapping[str, str], name: str) -> int:
    try:
        return int(env[name])
    except (KeyError, ValueError):
        raise BootstrapError(
            f"the environment variable {name} is {env.get(name)!r}, not a number; "
            "the launcher must set it"
        ) from None
