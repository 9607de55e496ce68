"""Prove a schedule: every rank ends with what the collective promises, and no less."""

from dataclasses import replace
from functools import partial

from collalgo.algorithms.catalogue import ALGORITHMS, find
from collalgo.algorithms.first_use import PROVED
from collalgo.base.integers import integer, rank_of
from collalgo.errors import AlgorithmNotApplicable, ScheduleError
from collalgo.schedule import ScheduleFunction, Step, trace
from collalgo.schedule.blame import located
from collalgo.schedule.collective import COLLECTIVES, Collective, promise_of
from collalgo.schedule.group_layout import flat
from collalgo.schedule.proof import Proof
from collalgo.schedule.prover import Prover

#: The most ranks of a proof, and the most transfers of all of them: a minute's work.
MOST_RANKS, MOST_TRANSFERS = 1 << 15, 1 << 23

#: The advice where no name is close to an unknown one.
OTHERWISE = "import the file that registers it, or pass its function"

__all__ = ["Proof", "verify"]


def verify(
    algorithm: str | ScheduleFunction,
    *,
    size: int,
    collective: str | None = None,
    root: int = 0,
    **parameters: object,
) -> Proof:
    """Prove that ``algorithm`` performs its collective with ``size`` ranks.

    Parameters
    ----------
    algorithm
        A name of the table ``ALGORITHMS``, which may give parameters, or a function
        of a group.
    size
        The number of ranks.
    collective
        The collective to prove; by default, the name of the function.
    root
        The root, for collectives that have one.
    **parameters
        Passed on to the function.

    Returns
    -------
    Proof
        Steps, bytes and links, and whether all ranks get the same bits.

    Raises
    ------
    ScheduleError
        With the step, the rank and the chunk where the proof fails.
    AlgorithmNotApplicable
        If there is no algorithm of that name, or it cannot run with that many ranks.

    Examples
    --------
    >>> print(verify("ring", collective="allgather", size=4))
    allgather of 4 ranks: 3 steps, 3/4 n bytes, 4 links, same bits on every rank
    """
    size = integer(size, "size", "verify", 1, MOST_RANKS)
    root = rank_of(root, "root", "verify", size)
    promise = _promise(algorithm, collective)
    if isinstance(algorithm, str):
        algorithm = find(promise.name, algorithm, size).schedule
    find_schedules = partial(_all_schedules, algorithm, size, root, parameters)
    schedules = find_schedules()
    try:
        proof = Prover(promise, schedules, root).prove()
    except ScheduleError as error:
        raise located(error, algorithm, size, root, **parameters) from None
    finally:
        if size > PROVED:  # what many ranks have in common takes much memory
            flat.cache_clear()
    return replace(proof, find_schedules=find_schedules)


def _all_schedules(
    algorithm: ScheduleFunction, size: int, root: int, parameters: dict[str, object]
) -> list[list[Step]]:
    """The schedules of all ranks.

    Raises
    ------
    ValueError
        If they are too long to be proved.
    """
    schedules: list[list[Step]] = []
    transfers = 0
    for rank in range(size):
        schedules.append(trace(algorithm, rank, size, root, **parameters))
        transfers += sum(map(len, schedules[-1]))
        if transfers > MOST_TRANSFERS:
            raise ValueError(
                f"the schedules of the first {rank + 1} of {size} ranks have "
                f"{transfers} transfers, and {MOST_TRANSFERS} can be proved; prove "
                "fewer ranks"
            )
    return schedules


def _promise(algorithm: str | ScheduleFunction, collective: str | None) -> Collective:
    collective = collective or getattr(algorithm, "collective", None)
    if collective is None:
        plain = algorithm.partition("(")[0] if isinstance(algorithm, str) else algorithm
        rows = {
            row.collective for row in ALGORITHMS if plain in (row.name, row.schedule)
        }
        if isinstance(plain, str) and not rows:
            raise _unknown(plain)
        name = getattr(algorithm, "__name__", None)
        collective = rows.pop() if len(rows) == 1 else name
    if collective not in COLLECTIVES:
        raise ValueError(
            f"the collective of {name or algorithm} is unknown; pass "
            "collective=, one of " + ", ".join(COLLECTIVES)
        )
    return promise_of(algorithm, collective)


def _unknown(name: str) -> AlgorithmNotApplicable:
    """The error of a name that no collective has."""
    from difflib import get_close_matches  # which takes a while to import

    meant = get_close_matches(name, {row.name for row in ALGORITHMS}, 1)
    near = f"did you mean {meant[0]!r}? If not, " if meant else ""
    return AlgorithmNotApplicable(f"there is no algorithm {name!r}; {near}{OTHERWISE}")
