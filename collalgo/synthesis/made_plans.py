"""Plans that have been made, kept while they are new.

All plans of a process together have a bound: the forms that are tried for a machine may
take a gigabyte.
"""

from typing import NamedTuple

from collalgo.base.cache import RecentlyUsed
from collalgo.cost.rounds import Line
from collalgo.cost.turning import Turning
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.schedule import PlannedSteps

#: The most bytes of plans without what their transfers turn into, and of plans to run.
MOST_BYTES = 1 << 28


class MadePlan(NamedTuple):
    """The plan of a stage; it does not hold the links that it was ordered on.

    Attributes
    ----------
    plan : Plan
        The transfers that represent all.
    turning : Turning
        What they turn into.
    line : Line
        The price over the bytes of a whole buffer, by loads and latencies alone.
    """

    plan: Plan
    turning: Turning
    line: Line


MADE: RecentlyUsed[MadePlan] = RecentlyUsed(MOST_BYTES, lambda one: one.plan.nbytes)
STEPS: RecentlyUsed[PlannedSteps] = RecentlyUsed(MOST_BYTES, lambda one: one.nbytes)
