"""The argument ALGORITHM: rows of the table, or a function of a file; their proof."""

from collections.abc import Sequence
from difflib import get_close_matches

import click

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm, named
from collalgo.algorithms.verify import Proof, verify
from collalgo.cli.on_topology import Ranks
from collalgo.cli.options import load_file, register_file
from collalgo.cost.placement import Placement
from collalgo.errors import CollalgoError, ScheduleError
from collalgo.integrations.msccl.row import FromFile
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.synthesis.synthesized import (
    NAME,
    Synthesized,
    is_name,
    synthesized_row,
)
from collalgo.synthesis.ways import PLANNED

#: Every root is proved up to this size, beyond it the first, the middle and the last.
EVERY_ROOT = 17


def algorithms_named(
    algorithm: str | None, collective: str | None, ranks: Ranks | None = None
) -> Sequence[Algorithm | ScheduleFunction]:
    """The rows of the table, or the function, that ALGORITHM names.

    The rows of ``synthesized`` are for ``ranks`` on a topology.
    """
    placement = ranks and ranks.placement
    if algorithm is not None and is_name(algorithm):
        return _synthesized(algorithm, collective, placement)
    if placement:
        raise click.UsageError(f"--topology is for {NAME}; leave it out, or pass -n")
    if algorithm is None:
        rows = list(ALGORITHMS)
    elif ".py:" in algorithm:
        return [_function(algorithm, collective)]
    elif algorithm.endswith((".py", ".xml", ".json")):
        rows = _rows_of_file(algorithm)
    else:
        rows = _rows_named(algorithm, collective)
    found = [row for row in rows if collective in (None, row.collective)]
    if rows and not found:
        others = ", ".join(sorted({row.collective for row in rows}))
        raise click.UsageError(
            f"{algorithm} has no algorithm for {collective}, only for {others}"
        )
    return found


def _synthesized(
    name: str, collective: str | None, placement: Placement | None
) -> list[Algorithm]:
    """The schedules that are synthesised for ranks on a topology."""
    if placement is None:
        raise click.UsageError(f"{NAME} needs --topology")
    asked = [collective] if collective else PLANNED
    try:
        return [synthesized_row(each, name, placement) for each in asked]
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None


def _rows_of_file(name: str) -> list[Algorithm]:
    """The rows that a user's file adds to the table."""
    known = set(map(id, ALGORITHMS))
    register_file(name)
    rows = [row for row in ALGORITHMS if id(row) not in known]
    if not rows:
        raise click.UsageError(
            f"{name} registers no algorithm; decorate a function with "
            f"@collalgo.algorithm(...), or name one: {name}:FUNCTION"
        )
    return rows


def _rows_named(algorithm: str, collective: str | None) -> list[Algorithm]:
    """The rows of a name, which may have parameters, for each of its collectives."""
    plain = algorithm.partition("(")[0]
    found = {row.collective for row in ALGORITHMS if row.name == plain}
    try:
        rows = [
            named(each, algorithm)
            for each in COLLECTIVES
            if each in found or each == collective
        ]
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None
    if not rows:
        raise _unknown(algorithm, plain)
    return rows


def _unknown(algorithm: str, plain: str) -> click.UsageError:
    """The error of a name that no algorithm has, with the names that are like it."""
    names = sorted({row.name for row in ALGORITHMS})
    near = get_close_matches(plain, names)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return click.UsageError(
        f"there is no algorithm {algorithm!r}. {meant}collalgo algorithms lists all; "
        "for your own, pass its file: collalgo verify mine.py"
    )


def sizes_of(meant: Algorithm | ScheduleFunction) -> tuple[int, ...]:
    """The number of ranks of an algorithm of a file or a topology; none for others."""
    match getattr(meant, "function", None):
        case FromFile() as found:
            return (found.cells.size,)
        case Synthesized() as found:
            return (found.planner.size,)
    return ()


def prove_roots(
    algorithm: Algorithm | ScheduleFunction,
    collective: str | None,
    size: int,
    root: int = 0,
) -> Proof:
    """Prove a size for all roots, or for ``root`` and some of many.

    Returns
    -------
    Proof
        The proof for root 0.
    """
    name, schedule = "", algorithm
    if isinstance(schedule, Algorithm):
        name, collective = f"{schedule.name}: ", schedule.collective
        if obstacle := schedule.obstacle(size):
            raise click.ClickException(f"{name}{obstacle}")
        schedule = schedule.schedule
    try:
        proof = verify(schedule, size=size, collective=collective)
        if COLLECTIVES[proof.collective].rooted:
            few = sorted({size // 2, size - 1, root} - {0})
            for other in range(1, size) if size <= EVERY_ROOT else few:
                verify(schedule, size=size, collective=proof.collective, root=other)
    except ScheduleError as error:  # which names it
        raise click.ClickException(str(error)) from None
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(f"{name}{error}") from None
    return proof


def _function(place: str, collective: str | None) -> Algorithm | ScheduleFunction:
    """The function of a user's file, or its row of the table if it is decorated.

    The name of another function is its collective unless one is given.
    """
    name, _, function = place.rpartition(":")
    schedule = getattr(load_file(name), function, None)
    if not callable(schedule):
        raise click.UsageError(f"{name} has no function {function!r}")
    for row in ALGORITHMS:
        if row.function is schedule and collective in (None, row.collective):
            return row
    if collective is None and function not in COLLECTIVES:
        raise click.UsageError(
            f"the collective of {function} is unknown; pass -c, one of "
            f"{', '.join(COLLECTIVES)}"
        )
    found: ScheduleFunction = schedule
    return found


def the_only(
    meant: Sequence[Algorithm | ScheduleFunction],
) -> Algorithm | ScheduleFunction:
    """The one algorithm that was named; an error of usage for several."""
    if len(meant) != 1:
        rows = [row for row in meant if isinstance(row, Algorithm)]
        names = ", ".join(f"{row.collective} {row.name}" for row in rows)
        raise click.UsageError(f"choose one algorithm, by -c: {names}")
    return meant[0]
