"""The one table of algorithms: tests, selection, bench, docs and the CLI iterate it."""

from collections.abc import Callable
from typing import NamedTuple

from collalgo.algorithms import (
    binomial,
    bruck,
    direct,
    dissemination,
    halving_doubling,
    recursive_doubling,
    ring,
    van_de_geijn,
)
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction


def power_of_two(size: int) -> str | None:
    """Why ``size`` ranks will not do, or None if they will."""
    if size & (size - 1):
        return f"needs a power of two of ranks but there are {size}"
    return None


class Algorithm(NamedTuple):
    """A row of the table: ``obstacle(size)`` says why it cannot run, or None."""

    collective: str
    name: str
    schedule: ScheduleFunction
    obstacle: Callable[[int], str | None] = lambda _: None


ALGORITHMS = (
    Algorithm("allreduce", "ring", ring.allreduce),
    Algorithm("allreduce", "halving_doubling", halving_doubling.allreduce),
    Algorithm("allreduce", "recursive_doubling", recursive_doubling.allreduce),
    Algorithm("allreduce", "one_shot", direct.one_shot),
    Algorithm("allreduce", "two_shot", direct.two_shot),
    Algorithm("broadcast", "binomial", binomial.broadcast),
    Algorithm("broadcast", "van_de_geijn", van_de_geijn.broadcast),
    Algorithm("reduce", "binomial", binomial.reduce),
    Algorithm("allgather", "ring", ring.allgather),
    Algorithm("allgather", "bruck", bruck.allgather),
    Algorithm("allgather", "direct", direct.allgather),
    Algorithm(
        "allgather", "recursive_doubling", halving_doubling.allgather, power_of_two
    ),
    Algorithm("reduce_scatter", "ring", ring.reduce_scatter),
    Algorithm("reduce_scatter", "recursive_halving", halving_doubling.reduce_scatter),
    Algorithm("reduce_scatter", "direct", direct.reduce_scatter),
    Algorithm("barrier", "dissemination", dissemination.barrier),
)


def candidates(collective: str) -> list[Algorithm]:
    """All rows for ``collective``, in the order of the table."""
    return [row for row in ALGORITHMS if row.collective == collective]


def find(collective: str, name: str, size: int) -> Algorithm:
    """The row for ``name``.

    Raises
    ------
    AlgorithmNotApplicable
        If there is no such row, or it cannot run with ``size`` ranks.
    """
    rows = {row.name: row for row in candidates(collective)}
    able = ", ".join(n for n, row in rows.items() if row.obstacle(size) is None)
    if name not in rows:
        raise AlgorithmNotApplicable(
            f"{collective}: there is no algorithm {name!r}; choose one of {able}",
            collective=collective,
        )
    if obstacle := rows[name].obstacle(size):
        raise AlgorithmNotApplicable(
            f"{collective}: {name} {obstacle}; choose one of {able}",
            collective=collective,
        )
    return rows[name]
