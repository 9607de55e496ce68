"""Prove a schedule: every rank ends with what the collective promises, and no less."""

from functools import lru_cache

from collalgo.algorithms import ALGORITHMS, find
from collalgo.collective import COLLECTIVES, Collective
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integers import integer, rank_of
from collalgo.prover import Proof, Prover
from collalgo.roster import flat
from collalgo.schedule import ScheduleFunction, trace

#: The largest world for which a user's schedule is proved before it runs.
PROVED = 64

__all__ = ["PROVED", "Proof", "prove_once", "verify"]


def verify(
    algorithm: str | ScheduleFunction,
    *,
    size: int,
    collective: str | None = None,
    root: int = 0,
    **parameters: object,
) -> Proof:
    """Prove that ``algorithm`` does its collective with ``size`` ranks.

    Parameters
    ----------
    algorithm
        A name of the table ``ALGORITHMS``, which may give parameters, or a function
        of a group.
    size
        The number of ranks.
    collective
        Which promise to hold it to; by default the name of the function.
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

    Examples
    --------
    >>> print(verify("ring", collective="allgather", size=4))
    allgather of 4 ranks: 3 steps, 3/4 n bytes, 4 links, same bits on every rank
    """
    size = integer(size, "size", "verify", 1)
    root = rank_of(root, "root", "verify", size)
    promise = _promise(algorithm, collective)
    if isinstance(algorithm, str):
        algorithm = find(promise.name, algorithm, size).schedule
    try:
        schedules = [
            trace(algorithm, rank, size, root, **parameters) for rank in range(size)
        ]
        return Prover(promise, schedules, root).prove()
    finally:
        if size > PROVED:  # what many ranks have in common takes much memory
            flat.cache_clear()


@lru_cache(maxsize=256)
def prove_once(
    algorithm: ScheduleFunction, size: int, collective: str, root: int = 0
) -> None:
    """Prove a schedule that no test has proved, if the ranks are not too many.

    Raises
    ------
    ScheduleError
        If it is wrong.
    AlgorithmNotApplicable
        If it is an allreduce that would give the ranks results of other bits.
    """
    if size > PROVED:
        return
    proof = verify(algorithm, size=size, collective=collective, root=root)
    if collective == "allreduce" and not proof.consistent:
        raise AlgorithmNotApplicable(
            f"allreduce: with {size} ranks the algorithm gives other bits on other "
            "ranks, which combine the same contributions in other orders",
            collective=collective,
        )


def _promise(algorithm: str | ScheduleFunction, collective: str | None) -> Collective:
    if collective is None:
        plain = algorithm.partition("(")[0] if isinstance(algorithm, str) else algorithm
        rows = {
            row.collective for row in ALGORITHMS if plain in (row.name, row.schedule)
        }
        name = getattr(algorithm, "__name__", None)
        collective = rows.pop() if len(rows) == 1 else name
    if collective not in COLLECTIVES:
        raise ValueError(
            f"which collective is {algorithm!r} to do? Pass collective=, one of "
            + ", ".join(COLLECTIVES)
        )
    return COLLECTIVES[collective]
