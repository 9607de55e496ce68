"""Plans that have been made, kept while they are new.

All plans of a process together have a bound: the forms that are tried for a machine may
take a gigabyte.
"""

from typing import NamedTuple

from collalgo.base.cache import Newest
from collalgo.cost.link_model import LinkModel
from collalgo.cost.rounds import Line
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.plan_price import line_of
from collalgo.synthesis.schedule import PlannedSteps

#: The most bytes of plans without what their transfers turn into, and of plans to run.
MOST_BYTES = 1 << 28


class MadePlan(NamedTuple):
    """The plan of a stage, on the links that it is ordered on.

    Attributes
    ----------
    pairs : PairLinks
        The links, which know what transfers turn into.
    plan : Plan
        The transfers that represent all.
    """

    pairs: PairLinks
    plan: Plan

    def line(self, model: LinkModel) -> Line:
        """The price over the bytes of a whole buffer."""
        return line_of(self.pairs, self.plan, model)


MADE: Newest[MadePlan] = Newest(MOST_BYTES, lambda one: one.plan.nbytes)
STEPS: Newest[PlannedSteps] = Newest(MOST_BYTES, lambda one: one.nbytes)
