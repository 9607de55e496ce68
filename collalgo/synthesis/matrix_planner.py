"""The planner of an alltoallv: plans for one matrix of bytes."""

from hashlib import blake2b

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line
from collalgo.synthesis import matrix_traffic
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.planner import Form, PlanKey, Planner, Stage, plan_keys
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.traffic import Traffic


class MatrixPlanner(Planner):
    """Plans for the bytes of an alltoallv, which are right for any other bytes, too.

    They are those of the collective ``alltoall``, priced over the bytes of all pairs of
    ranks together. Of the plans that are tried the cheapest for these bytes is kept.

    Parameters
    ----------
    placement
        The device of each rank, on a topology.
    matrix
        The bytes from each rank to each.
    of
        A planner of the same ranks, whose routes are taken.
    """

    def __init__(self, placement: Placement, matrix: ByteMatrix, of: Planner):
        super().__init__(placement)
        matrix.check_size(placement.size)
        self._matrix, self._of, self._part = matrix, of, matrix.part
        self._seconds: dict[PlanKey, float] = {}
        both = f"{placement.digest} {matrix.digest}"
        self.machine = blake2b(both.encode(), digest_size=4).hexdigest()

    @property
    def routes(self) -> RankRoutes:
        """The routes between the ranks."""
        return self._of.routes

    @property
    def pairs(self) -> PairLinks:
        """The links between the ranks."""
        return self._of.pairs

    def buffers(self, _collective: str) -> int:
        """One buffer has the bytes of all pairs."""
        return 1

    def price(self, collective: str, form: Form) -> Line:
        """The price of a form, whose plan is kept if it is the cheapest so far."""
        with self._lock:
            found = super().price(collective, form)
            (key,) = plan_keys(collective, form)
            self._seconds[key] = found.seconds(self._matrix.total)
            best = min(self._seconds, key=self._seconds.__getitem__)
            self._plans = {at: self._plans[at] for at in self._plans if at == best}
        return found

    def steps(self, collective: str, form: Form, root: int = 0) -> PlannedSteps:
        """The steps of a form, whose plan is the one to be kept then."""
        with self._lock:
            found = super().steps(collective, form, root)
            self.forget_traffic()
        return found

    def forget_traffic(self) -> None:
        """Free the memory of what plans are made of, until the next one is made."""
        with self._lock:
            self._traffic.clear()

    def _identity(self, key: PlanKey) -> str:
        return f"{super()._identity(key)} {self._matrix.digest}"

    def _traffic_of(self, stage: Stage, root: int) -> Traffic:
        """The traffic of the matrix."""
        key = stage, root
        if key not in self._traffic:
            self._traffic[key] = matrix_traffic.alltoallv(self.pairs, self._matrix)
        return self._traffic[key]
