"""A rank that mpiexec, srun or jsrun has started: its variables, then its command.

Each launcher numbers the ranks by names of its own. This program translates them to
those of ``collalgo run``, binds the rank, has its output forwarded in whole lines and
copied to files, and becomes the command of the rank.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from collalgo.base.environment import INTERFACES
from collalgo.bootstrap.launcher_variables import (
    HYDRA_LOCAL,
    JSRUN,
    JSRUN_LOCAL,
    MPICH,
    OPEN_MPI,
    OPEN_MPI_LOCAL,
    SRUN,
)
from collalgo.errors import BootstrapError, OutputError
from collalgo.launch import environment
from collalgo.launch.allocation import task_counts
from collalgo.launch.binding import Binding, cpus_of_ranks
from collalgo.launch.hosts import RankPosition, positions_by_host
from collalgo.launch.line_relay import relay_output
from collalgo.launch.log_files import LogFiles
from collalgo.launch.messages import report


class Numbers(NamedTuple):
    """The variables by which a launcher numbers its ranks, in the job and on a host."""

    rank: str
    size: str
    local_rank: str
    local_size: str

    def read(self, env: Mapping[str, str]) -> tuple[int, int, int, int] | None:
        """Their values; None if one is not set."""
        if not all(name in env for name in self):
            return None
        try:
            rank, size, local_rank, local_size = (int(env[name]) for name in self)
        except ValueError:
            raise BootstrapError(
                "the launcher's variables of rank and size are not numbers: "
                f"{self._shown(env)}"
            ) from None
        if not (0 <= rank < size and 0 <= local_rank < local_size <= size):
            raise BootstrapError(
                f"the launcher's variables contradict each other: {self._shown(env)}; "
                "need 0 <= rank < size, and the same of local rank and size"
            )
        return rank, size, local_rank, local_size

    def _shown(self, env: Mapping[str, str]) -> str:
        """The variables with their values."""
        return ", ".join(f"{name}={env[name]}" for name in self)


#: Those of MPICH and Intel MPI.
HYDRA = Numbers(*MPICH, *HYDRA_LOCAL)

#: Those of Open MPI (and of jsrun for it), of jsrun, and of Hydra.
NUMBERS = (
    Numbers(*OPEN_MPI, *OPEN_MPI_LOCAL),
    Numbers(*JSRUN, *JSRUN_LOCAL),
    HYDRA,
)


def position_of(
    env: Mapping[str, str], counts: Sequence[int] | None = None
) -> RankPosition:
    """The position of this rank, from the variables of its launcher.

    Parameters
    ----------
    env
        The variables.
    counts
        The number of ranks of each host in the order of the ranks, as they were asked
        for; a launcher may place them otherwise.

    Raises
    ------
    BootstrapError
        If there are no such variables.
    """
    numbers = next((found for each in NUMBERS if (found := each.read(env))), None)
    if numbers is None:
        return _of_slurm(env)
    rank, size, local_rank, local_size = numbers
    if local_size == size:
        counts = [size]
    elif counts and sum(counts) == size:
        planned = next(islice(positions_by_host(counts), rank, None))
        if (planned.local_rank, planned.local_size) == (local_rank, local_size):
            return planned
    cross = (0, 1) if local_size == size else (None, None)
    return RankPosition(rank, size, local_rank, local_size, *cross)


def _of_slurm(env: Mapping[str, str]) -> RankPosition:
    """The position of a task of srun, which knows the tasks of all nodes."""
    try:
        variable = "SLURM_STEP_TASKS_PER_NODE"
        counts = task_counts(env[variable], variable)
        node, local = int(env["SLURM_NODEID"]), int(env["SLURM_LOCALID"])
        rank, local_size = int(env[SRUN[2]]), counts[node]
    except (KeyError, IndexError, ValueError):
        raise BootstrapError(
            "this process has no rank: no variables of Open MPI, MPICH, Intel MPI, "
            "srun or jsrun are set; start it by collalgo run --mpi"
        ) from None
    cross = [number for number, count in enumerate(counts) if count > local]
    cross_rank = sum(number < node for number in cross)
    size = sum(counts)
    return RankPosition(rank, size, local, local_size, cross_rank, len(cross))


def main() -> int:
    """Become the command of the rank; the exit code if that fails."""
    options = _options(sys.argv[1:])
    counts = [int(each) for each in options.rank_counts.split(",") if each]
    try:
        position = position_of(os.environ, counts)
        cpus = cpus_of_ranks(Binding(options.rank_binding), position.local_size)
        logs = LogFiles(options.rank_logs) if options.rank_logs is not None else None
        if logs is not None or HYDRA.read(os.environ):
            relay_output(position.rank, logs)
    except (BootstrapError, OutputError, OSError) as error:
        report(str(error))
        return 1
    if position.cross_rank is None and position.rank == 0:
        report("the launcher does not report which ranks share a host; CROSS_RANK and "
               "CROSS_SIZE are not set")  # fmt: skip
    bound = cpus[position.local_rank]
    if bound is not None:
        os.sched_setaffinity(0, bound)
    os.environ.update(_variables(position, options.rank_env))
    return _execute(options.command)


def _execute(command: list[str]) -> int:
    """Replace this process by a command; the exit code if that fails."""
    try:
        os.execvp(command[0], command)
    except OSError as error:
        report(f"cannot run {command[0]}: {error.strerror}")
        return 127


def _variables(position: RankPosition, dialect: str) -> dict[str, str]:
    """The variables of the rank; settings of libraries by the user are kept."""
    limits = environment.thread_limit(position.local_size)
    nics = environment.of_nics(INTERFACES.given())
    soft = {name: value for name, value in (limits | nics).items()
            if name not in os.environ}  # fmt: skip
    return soft | environment.of_rank(position, dialect)


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m collalgo.launch.delegated_rank", allow_abbrev=False
    )
    parser.add_argument("--rank-env", default=environment.TORCH)
    parser.add_argument("--rank-binding", default=Binding.NONE.value)
    parser.add_argument("--rank-counts", default="")
    parser.add_argument("--rank-logs", type=Path)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
