"""Measure the start and the end of empty jobs, compared with mpiexec."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from collalgo.errors import BootstrapError
from collalgo.launch.mpi_command import Step, find_mpiexec, mpi_line
from collalgo.launch.options import LaunchOptions

#: The program of a rank: it writes the seconds of its phases.
RANK = """
from time import perf_counter
times = [perf_counter()]
import numpy; times.append(perf_counter())
import collalgo; collalgo.init; times.append(perf_counter())
collalgo.init(); times.append(perf_counter())
print(*(end - begin for begin, end in zip(times, times[1:])), flush=True)
"""

#: The phases of a rank.
PHASES = ("import NumPy", "import collalgo", "init")

#: The programs of the other jobs.
NUMPY, MPI = "import numpy", "import numpy; from mpi4py import MPI"


class Job(NamedTuple):
    """An empty job: its name in tables and its command line."""

    name: str
    line: Sequence[str]


class Start(NamedTuple):
    """The seconds of a job, from its start to its end, one for each round.

    Attributes
    ----------
    name : str
        The name of the job.
    seconds : list of float
        Of the whole job.
    phases : list of tuple
        Of each rank of all rounds, the seconds of each of :data:`PHASES`; none for
        other libraries.
    """

    name: str
    seconds: list[float]
    phases: list[tuple[float, ...]]


def jobs(ranks: int) -> Iterator[Job]:
    """The jobs that are compared; those of an MPI if it and mpi4py are installed."""
    run = (sys.executable, "-m", "collalgo", "run", "-n", str(ranks))
    yield Job("collalgo run: init", (*run, *_python(RANK)))
    yield Job("collalgo run: NumPy", (*run, *_python(NUMPY)))
    if find_spec("mpi4py") is None:
        return
    try:
        line, _ = mpi_line(find_mpiexec(), Step(ranks, (), LaunchOptions(())))
    except BootstrapError:  # no mpiexec
        return
    launcher = Path(line[0]).name
    yield Job(f"{launcher}: NumPy and MPI_Init", (*line, *_python(MPI)))
    yield Job(f"{launcher}: NumPy", (*line, *_python(NUMPY)))


def _python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def measure_starts(ranks: int, rounds: int) -> list[Start]:
    """Time all jobs in turn, so that a busy moment affects all of them.

    Raises
    ------
    RuntimeError
        If a job fails.
    """
    todo = list(jobs(ranks))
    found = [Start(job.name, [], []) for job in todo]
    for _ in range(rounds):
        for job, start in zip(todo, found, strict=True):
            begin = perf_counter()
            output = _run(job)
            start.seconds.append(perf_counter() - begin)
            start.phases.extend(_phases(output))
    return found


def _run(job: Job) -> str:
    """The output of a job."""
    done = subprocess.run(
        job.line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{job.name} ended with {done.returncode}: {said}")
    return done.stdout


def _phases(output: str) -> Iterator[tuple[float, ...]]:
    """The seconds that each rank has written, after the prefix of the launcher."""
    for line in output.splitlines():
        yield tuple(map(float, line.split()[-len(PHASES) :]))


def phases_in_words(start: Start) -> str:
    """The median of each phase of a rank."""
    medians = map(median, zip(*start.phases, strict=True))
    parts = (f"{n} {1e3 * s:.0f} ms" for n, s in zip(PHASES, medians, strict=True))
    return f"in a rank of {start.name}: " + ", ".join(parts)
