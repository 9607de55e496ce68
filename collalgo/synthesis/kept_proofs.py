"""Proofs of plans kept on disk, so that later jobs need not prove the same plan again.

A proof is that of the content of a plan, by this code: it holds for no other plan.
"""

from collalgo.algorithms.first_use import prove_once
from collalgo.algorithms.row import Algorithm
from collalgo.base import code_identity, disk_cache
from collalgo.schedule import ScheduleFunction
from collalgo.synthesis.plan_proof import ALONG_TREES, prove_plan
from collalgo.synthesis.planner import MOST_ALIKE
from collalgo.synthesis.synthesized import Synthesized, is_plain, steps_of

#: The subfolder, and the format of its files.
KIND, FORMAT = "proofs", "proofs/1"

#: The most transfers that are proved by symbolic values, where units can be. More take
#: ten times as long as units do, while the call of a job that replans waits.
MOST_SYMBOLIC = 1 << 12

#: The content of a file.
PROVED = "proved"


def prove(row: Algorithm, schedule: ScheduleFunction, size: int, root: int) -> None:
    """Prove a schedule before its first run, unless it is a plan that has been proved.

    Parameters
    ----------
    row, schedule
        The algorithm, and its schedule.
    size, root
        The number of ranks, and the root of a rooted collective.

    Raises
    ------
    ScheduleError, AlgorithmNotApplicable
        As of :func:`~collalgo.algorithms.first_use.prove_once`.
    """
    if not isinstance(row.function, Synthesized) or not is_plain(row):
        prove_once(schedule, size, row.collective, root)
        return
    steps = steps_of(row, root)
    plan, content = steps.represented, steps.digest
    key = repr((FORMAT, code_identity.of_code(), row.collective, size, root, content))
    if disk_cache.recall(KIND, key) != PROVED:
        if steps.transfers > MOST_SYMBOLIC and row.collective in ALONG_TREES:
            prove_plan(plan, row.collective, root, steps.turning)
        else:
            prove_once(schedule, size, row.collective, root, MOST_ALIKE)
        disk_cache.keep(KIND, key, PROVED)
