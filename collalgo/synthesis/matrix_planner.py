"""The planner of an alltoallv: plans for one matrix of bytes."""

from hashlib import blake2b

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.placement import Placement
from collalgo.synthesis import matrix_traffic
from collalgo.synthesis.kept_plans import KeptPlans
from collalgo.synthesis.pair_links import PairLinks
from collalgo.synthesis.planner import Form, Planner
from collalgo.synthesis.rank_routes import RankRoutes
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.traffic import Traffic
from collalgo.synthesis.ways import Stage


class MatrixPlanner(Planner):
    """Plans for the bytes of an alltoallv, which are right for any other bytes, too.

    They are those of the collective ``alltoall``, priced over the bytes of all pairs of
    ranks together.

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
        self._matrix, self._of = matrix, of
        self._inputs = f"{placement.digest} {matrix.digest}"
        self._on_disk = KeptPlans(self._inputs, placement.size, matrix.part)
        self.machine = blake2b(self._inputs.encode(), digest_size=4).hexdigest()

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

    def steps(self, collective: str, form: Form, root: int = 0) -> PlannedSteps:
        """The steps of a form; frees what the plan was made of."""
        with self._lock:
            found = super().steps(collective, form, root)
            self.forget_traffic()
        return found

    def forget_traffic(self) -> None:
        """Free the memory of what plans are made of, until the next one is made."""
        with self._lock:
            self._traffic.clear()

    def _traffic_of(self, stage: Stage, root: int) -> Traffic:
        """The traffic of the matrix."""
        key = stage, root
        if key not in self._traffic:
            self._traffic[key] = matrix_traffic.alltoallv(self.pairs, self._matrix)
        return self._traffic[key]
