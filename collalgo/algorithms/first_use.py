"""The proof of a user's schedule before its first run or price.

Only the threads of a process share a proof. One kept on disk would have to be found by
the steps of all ranks, and to trace them and take their digest takes about as long as
the proof. The code of a function does not tell them, as it reads globals and calls
other functions.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from collalgo.algorithms.row import Algorithm
from collalgo.base.cache import computing
from collalgo.errors import AlgorithmNotApplicable, ScheduleError
from collalgo.schedule import LANES, ScheduleFunction, Step, trace
from collalgo.schedule.collective import promise_of

if TYPE_CHECKING:  # fractions delay the start of each rank
    from collalgo.schedule.proof import Proof

#: The largest world for which a user's schedule is proved before it runs.
PROVED = 64

#: The packages whose schedules tests and plans prove.
OF_LIBRARY = ("collalgo.algorithms.", "collalgo.synthesis.")

#: Transfers of all ranks with which a schedule is proved before it runs.
PROVED_TRANSFERS = 1 << 22


def prove_once(
    algorithm: ScheduleFunction,
    size: int,
    collective: str,
    root: int = 0,
    most: int = PROVED,
) -> None:
    """Prove a schedule before its first run, up to a number of ranks.

    Raises
    ------
    ScheduleError
        If it is wrong.
    AlgorithmNotApplicable
        If it needs more lanes than there are, is too long to be proved, or is an
        allreduce that would give the ranks results of other bits.
    """
    with computing:  # once for all ranks that are threads
        if size <= most:
            _prove_once(algorithm, size, collective, root)


def prove_users(
    schedule: ScheduleFunction, size: int, collective: str, root: int
) -> None:
    """Prove a schedule before its first price, unless it is of the library.

    Raises
    ------
    ScheduleError, AlgorithmNotApplicable
        As of :func:`prove_once`.
    """
    row = getattr(schedule, "__self__", None)
    function = row.function if isinstance(row, Algorithm) else schedule
    module = getattr(function, "__module__", None) or ""
    if not module.startswith(OF_LIBRARY):
        prove_once(schedule, size, collective, root)


@lru_cache(maxsize=256)
def _prove_once(
    algorithm: ScheduleFunction, size: int, collective: str, root: int
) -> None:
    """Prove a schedule for the first time."""
    from collalgo.schedule.blame import located
    from collalgo.schedule.prover import Prover

    schedules: list[list[Step]] = []
    for rank in range(size):
        schedules.append(trace(algorithm, rank, size, root))
        _check_length(schedules, size, collective)
    try:
        proof = Prover(promise_of(algorithm, collective), schedules, root).prove()
    except ScheduleError as error:
        raise located(error, algorithm, size, root) from None
    _check_proof(proof, size, collective)


def _check_proof(proof: "Proof", size: int, collective: str) -> None:
    """Check that a schedule has few enough lanes, and gives all ranks the same bits."""
    if proof.lanes > LANES:
        raise AlgorithmNotApplicable(
            f"{collective}: with {size} ranks the algorithm has {proof.lanes} lanes "
            f"between two ranks but there are only {LANES}; run fewer schedules "
            "together",
            collective=collective,
        )
    if collective == "allreduce" and not proof.consistent:
        raise AlgorithmNotApplicable(
            f"allreduce: with {size} ranks the algorithm gives the ranks different "
            "bits, since they combine the contributions in different orders; choose "
            "another algorithm",
            collective=collective,
        )


def _check_length(
    schedules: Sequence[Sequence[Step]], size: int, collective: str
) -> None:
    """Refuse a schedule whose proof would take minutes, judged by two ranks."""
    counts = [sum(map(len, steps)) for steps in schedules[:2]]
    found = min(counts) * size if len(counts) == min(size, 2) else 0
    if found > PROVED_TRANSFERS:
        raise AlgorithmNotApplicable(
            f"{collective}: with {size} ranks the algorithm has about {found} "
            f"transfers, but at most {PROVED_TRANSFERS} are proved before it runs; "
            "choose fewer segments or lanes",
            collective=collective,
        )
