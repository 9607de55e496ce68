"""The rank of this process, and the size of its job, from the launcher's variables."""

import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from collalgo.base.environment import JOB, MEMBER, STORE
from collalgo.bootstrap.ancestors import Environments, depth
from collalgo.bootstrap.launcher_variables import (
    HOROVOD,
    JSRUN,
    MPICH,
    MVAPICH,
    OPEN_MPI,
    PALS,
    RESTART_COUNT,
    SRUN,
    TORCH,
    in_range,
    local_size,
    number,
    port_of,
    refuse_half,
)
from collalgo.errors import BootstrapError

#: The launcher of this library.
RUN = "collalgo run"


class Route(Enum):
    """The ways in which the ranks of a job connect."""

    HOST = "all of them are on this host"
    STORE = "over a store whose address the launcher sets"
    LAUNCHER_STORE = "over a store that a foreign launcher holds"
    MPI = "over MPI, or PMI"


class Identity(NamedTuple):
    """A rank as its launcher numbers it.

    ``job`` is a name of this job alone, if the launcher sets one.
    """

    rank: int
    size: int
    job: str
    launcher: str
    route: Route = Route.HOST

    @property
    def is_job_secret(self) -> bool:
        """Whether other users of the host cannot derive the name of the job."""
        return self.launcher == RUN


class Launcher(NamedTuple):
    """The variables by which a launcher numbers the ranks.

    ``mark`` is a further variable that distinguishes it from others; ``fresh`` if it
    sets that for each process, so that an older one is of another job.
    """

    rank: str
    size: str
    read: Callable[[Mapping[str, str]], "Identity"]
    mark: str | None = None
    fresh: bool = True

    def is_in(self, env: Mapping[str, str]) -> bool:
        """Whether all its variables are set, and not empty."""
        names = (self.rank, self.size, self.mark or self.rank)
        return all(env.get(name, "").strip() for name in names)

    def depth(self, env: Mapping[str, str], began: Environments | None = None) -> int:
        """The number of processes with these values, from this one upwards."""
        return depth((self.rank, self.size), env, began)

    def is_stale(self, env: Mapping[str, str], began: Environments) -> bool:
        """Whether the numbers have been set again since the mark was."""
        if self.mark is None or not self.fresh:
            return False
        return depth((self.mark,), env, began) > self.depth(env, began)

    def numbers(self, env: Mapping[str, str]) -> tuple[str, str]:
        """The values of rank and size."""
        return env[self.rank].strip(), env[self.size].strip()

    def words(self, env: Mapping[str, str]) -> str:
        """The variables of rank and size with their values."""
        return f"{self.rank}={env[self.rank]} and {self.size}={env[self.size]}"


def identity(environment: Mapping[str, str] | None = None) -> Identity:
    """The identity of this process; without launcher the only rank of its job.

    Of several launchers the nearest decides: the one that has started this process, or
    the nearest of its ancestors.

    Raises
    ------
    BootstrapError
        If launchers contradict each other and none is nearer, if one has started ranks
        on several hosts that cannot connect, or a variable is malformed or missing.
    """
    env = os.environ if environment is None else environment
    chosen = launcher_of(env, by_depth=environment is None)
    if chosen is not None:
        return chosen.read(env)
    if env.get(STORE.name) or env.get(JOB.name):
        return _of_run(env)  # which says what is missing
    refuse_half(env)
    return Identity(0, 1, "", "none")


def launcher_of(env: Mapping[str, str], *, by_depth: bool = True) -> Launcher | None:
    """The launcher that decides, if there is one; the nearest with ``by_depth``."""
    found = nearest = [each for each in LAUNCHERS if each.is_in(env)]
    if len(found) > 1 and by_depth:
        began = Environments()
        found = [each for each in found if not each.is_stale(env, began)]
        depths = [each.depth(env, began) for each in found]
        nearest = [e for e, n in zip(found, depths, strict=True) if n == min(depths)]
    for other in nearest[1:]:
        if other.numbers(env) != nearest[0].numbers(env):
            raise BootstrapError(
                f"launchers disagree on this process: {nearest[0].words(env)}, but "
                f"{other.words(env)}; unset the variables of other jobs"
            )
    if nearest == [BY_HAND]:  # a launcher that agrees knows how the ranks connect
        return next(e for e in found if e.numbers(env) == BY_HAND.numbers(env))
    return nearest[0] if nearest else None


def _of_run(env: Mapping[str, str]) -> Identity:
    job = env.get(JOB.name) or env[STORE.name]
    if env.get(MEMBER.name) and not env.get(TORCH[0]):
        raise BootstrapError(
            "this process is a member of an elastic job, whose ranks are numbered in "
            "each epoch; use collalgo.elastic.run(fn) in place of collalgo.init()"
        )
    across = Route.STORE if env.get(STORE.name) else None
    return _by_variables(env, job, RUN, across=across)


def _of_torchrun(env: Mapping[str, str], launcher: str = "torchrun") -> Identity:
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", RESTART_COUNT)
    _check_port(env, "MASTER_PORT", "WORLD_SIZE")
    job = "torchrun/" + "/".join(env.get(name, "") for name in names)
    across = Route.LAUNCHER_STORE if torchrun_keeps_a_store(env) else None
    return _by_variables(env, job, launcher, across=across)


def _by_hand(env: Mapping[str, str]) -> Identity:
    """A rank with the variables of torchrun, set by an unknown launcher."""
    return _of_torchrun(env, "the environment")


def _of_mpi(
    names: tuple[str, str], launcher: str
) -> Callable[[Mapping[str, str]], Identity]:
    """The reader of a launcher whose ranks connect over MPI."""

    def read(env: Mapping[str, str]) -> Identity:
        rank, size = in_range(env, launcher, names)
        return Identity(rank, size, "", launcher, Route.MPI)

    return read


def _of_horovodrun(env: Mapping[str, str]) -> Identity:
    server = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
    _check_port(env, server[1], HOROVOD[1])
    job = "horovodrun/" + "/".join(env.get(name, "") for name in server)
    has_store = all(env.get(name) for name in server)
    across = Route.LAUNCHER_STORE if has_store else None
    return _by_variables(env, job, "horovodrun", HOROVOD, across=across)


def _check_port(env: Mapping[str, str], name: str, size: str) -> None:
    """Refuse an impossible port, over which several ranks would wait without end."""
    if env.get(name, "").strip() and env.get(size, "").strip() != "1":
        port_of(env, name)


def torchrun_keeps_a_store(env: Mapping[str, str]) -> bool:
    """Whether the launcher is a torchrun over whose store its ranks can connect."""
    return env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _of_srun(env: Mapping[str, str]) -> Identity:
    """A rank of srun; ranks of one node connect there, whatever MPI srun has."""
    job, step, rank, size, nodes = SRUN
    numbers = in_range(env, "srun", (rank, size))
    if number(env, nodes) > 1:
        return Identity(*numbers, "", "srun", Route.MPI)
    return Identity(*numbers, f"srun/{env[job]}.{env[step]}", "srun")


def _by_variables(
    env: Mapping[str, str],
    job: str,
    launcher: str,
    names: tuple[str, str, str, str] = TORCH,
    *,
    across: Route | None = None,
) -> Identity:
    """A rank from the variables of its launcher.

    ``across`` is how ranks on several hosts can connect, if they can.
    """
    _, of_size, of_local_size, _ = names
    rank, size = in_range(env, launcher, names[:2])
    here = local_size(env, launcher, names, size)
    if across is Route.STORE:
        return Identity(rank, size, job, launcher, across)
    if here == size:
        return Identity(rank, size, job, launcher)
    if across is None:
        raise BootstrapError(
            f"{launcher} sets {of_size}={size} but {of_local_size}={here}, and no "
            "store for ranks of several hosts; set COLLALGO_STORE and COLLALGO_SECRET, "
            "or start them by collalgo run -H or mpiexec",
            rank=rank,
        )
    return Identity(rank, size, job, launcher, across)


#: Sources that set RANK and WORLD_SIZE only: a script, a platform, a user.
BY_HAND = Launcher(*TORCH[:2], _by_hand)

#: The launchers. Of those that agree the first decides.
LAUNCHERS = (
    Launcher(*TORCH[:2], _of_run, JOB.name),
    Launcher(*TORCH[:2], _of_torchrun, "TORCHELASTIC_RUN_ID"),
    Launcher(*TORCH[:2], _of_run, STORE.name, fresh=False),
    Launcher(*OPEN_MPI, _of_mpi(OPEN_MPI, "mpiexec of Open MPI")),
    Launcher(*MPICH, _of_mpi(MPICH, "mpiexec of MPICH")),
    Launcher(*MVAPICH, _of_mpi(MVAPICH, "mpirun_rsh of MVAPICH")),
    Launcher(*JSRUN, _of_mpi(JSRUN, "jsrun")),
    Launcher(*PALS, _of_mpi(PALS, "mpiexec of PALS")),
    Launcher(*SRUN[2:4], _of_srun, SRUN[1]),
    Launcher(*HOROVOD[:2], _of_horovodrun),
    BY_HAND,
)
