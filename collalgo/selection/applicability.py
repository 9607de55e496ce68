"""The algorithms that can run with a number of ranks, and obstacles of the others."""

from collections.abc import Callable, Iterable

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.first_use import PROVED, prove_once
from collalgo.algorithms.table import named
from collalgo.engine.call import AlgorithmChoice
from collalgo.errors import AlgorithmNotApplicable, CollalgoError

#: The obstacle of an algorithm where reproducible results are requested.
NOT_SERIAL = "does not combine in the order of the ranks"

#: The obstacle of an algorithm for a late rank where all ranks are on time.
BY_NAME = (
    "for calls with a late rank: select --topology WHAT --late 2=10ms prices it, and "
    "algorithm=NAME of a call runs it"
)


def obstacle_to(row: Algorithm, size: int, reproducible: bool) -> str | None:
    """The obstacle of an algorithm for a number of ranks, or None."""
    if obstacle := row.obstacle(size):
        return obstacle
    if row.by_name:
        return BY_NAME
    if reproducible and not row.keeps_rank_order:
        return NOT_SERIAL
    if row.unproved:
        try:
            prove_once(row.schedule, size, row.collective)
        except CollalgoError as error:
            return "is wrong: " + str(error).removeprefix(f"{row.name}: ")
    return None


def combine_at_once(collective: str, choice: AlgorithmChoice) -> bool:
    """Whether all algorithms of a choice combine all contributions at once.

    Raises
    ------
    AlgorithmNotApplicable
        If there is no such algorithm.
    """
    if choice is None:
        return True
    if callable(choice):
        return False
    names = (choice,) if isinstance(choice, str) else choice
    return all(named(collective, name).keeps_rank_order for name in names)


def is_right_in_its_order(row: Algorithm, size: int) -> bool:
    """Whether a row that has an order of the ranks may be chosen.

    A schedule of a user that takes positions for ranks is right in the order of the
    ranks alone. Segments and lanes do not change that.
    """
    if row.of_library or not dict(row.parameters).get("order"):
        return True
    parts = ("segments", "lanes")
    whole = row._replace(
        parameters=tuple(one for one in row.parameters if one[0] not in parts)
    )
    try:
        prove_once(whole.schedule, size, row.collective)
    except CollalgoError:
        return False
    return size <= PROVED


def applicable(
    rows: Iterable[Algorithm], obstacle: Callable[[Algorithm], str | None]
) -> tuple[list[Algorithm], dict[Algorithm, str]]:
    """The rows that can run, and the obstacles of the others."""
    able: list[Algorithm] = []
    unable: dict[Algorithm, str] = {}
    for row in rows:
        if why := obstacle(row):
            unable[row] = why
        else:
            able.append(row)
    return able, unable


def no_applicable_algorithm(collective: str, size: int) -> AlgorithmNotApplicable:
    """The error where no algorithm can run."""
    return AlgorithmNotApplicable(
        f"{collective}: no algorithm can run with {size} ranks", collective=collective
    )
