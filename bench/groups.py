"""Measure groups: split, group and dup, and the first two calls in a new group."""

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.mpi_world import mpi_world
from collalgo.bench.starting import starting_barrier

from collalgo import Communicator

#: The elements of the allreduces, of 8 bytes.
COUNT = 50

#: The parts of the median time of a row.
COLUMNS = ("make", "first call", "second call")


class GroupTimes(NamedTuple):
    """The seconds to make a group, and of the first two allreduces of 400 B in it.

    Each is the median of the slowest rank.
    """

    library: str
    name: str
    seconds: tuple[float, ...]


class _Case(NamedTuple):
    """The functions by which a library makes a group, calls it and frees it."""

    library: str
    name: str
    make: Callable[[], Any]
    call: Callable[[Any], object]
    free: Callable[[Any], object]


def groups(comm: Communicator, rounds: int, *, mpi: bool) -> list[GroupTimes]:
    """Measure all ways to make a group; with ``mpi`` also those of mpi4py, in turn."""
    cases = [*_cases(comm), *(_cases_of_mpi(comm.size) if mpi else ())]
    start = starting_barrier(comm)
    times = np.array(
        [[_once(start, case) for case in cases] for _ in range(rounds + 1)]
    )
    slowest = np.max(comm.allgather(times[1:]), axis=0)  # without the first round
    return [
        GroupTimes(
            case.library,
            case.name,
            tuple(median(slowest[:, number, part]) for part in range(len(COLUMNS))),
        )
        for number, case in enumerate(cases)
    ]


def _once(start: Callable[[], object], case: _Case) -> list[float]:
    """Make a group, call it twice and free it: the seconds of all but the last."""
    found: list[Any] = []
    jobs: tuple[Callable[[], object], ...] = (
        lambda: found.append(case.make()),
        lambda: case.call(found[0]),
        lambda: case.call(found[0]),
    )
    seconds = []
    for job in jobs:
        start()
        begun = perf_counter()
        job()
        seconds.append(perf_counter() - begun)
    case.free(found[0])
    return seconds


def _cases(comm: Communicator) -> Iterator[_Case]:
    x = np.ones(COUNT)
    for name, make in (
        ("split in one", lambda: comm.split(0)),
        ("split in two", lambda: comm.split(comm.rank % 2)),
        ("dup", comm.dup),
        ("group of all", lambda: comm.group(range(comm.size))),
    ):
        yield _Case(
            "collalgo", name, make, lambda g: g.allreduce(x), Communicator.close
        )


def _cases_of_mpi(size: int) -> Iterator[_Case]:
    from mpi4py import MPI

    world, x, out = mpi_world(size), np.ones(COUNT), np.empty(COUNT)
    for name, make in (
        ("split in one", lambda: world.Split(0)),
        ("split in two", lambda: world.Split(world.rank % 2)),
        ("dup", world.Dup),
        ("group of all", lambda: world.Create_group(world.group)),
    ):
        yield _Case("mpi4py", name, make, lambda g: g.Allreduce(x, out), MPI.Comm.Free)
