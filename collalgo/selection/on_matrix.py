"""Decisions on an alltoallv whose bytes from each rank to each are known to all."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm
from collalgo.cost.bounds import Bound, bound
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.matrix_bounds import ALLTOALLV, hosts_are_one
from collalgo.cost.matrix_messages import matrix_messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line, rounds
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule import ScheduleFunction
from collalgo.selection.decide import Question
from collalgo.selection.lazy_prices import LazyPrices, segments_of
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.pricer import Pricer
from collalgo.selection.prices import Choices, LazyCandidate
from collalgo.selection.synthesis_candidates import SynthesisCandidates, port_speeds
from collalgo.synthesis.matrix_planner import MatrixPlanner
from collalgo.synthesis.planner import can_plan
from collalgo.synthesis.synthesized import is_name
from collalgo.topology.model import Topology
from collalgo.topology.places import ranks_of

#: The collective of the algorithms that an alltoallv runs.
ALLTOALL = "alltoall"

#: The most blocks that all ranks send and receive in a schedule, each as often as it
#: has segments: more take longer than some ten seconds to price.
MOST_BLOCKS = 1 << 21


def matrix_pricer(of: TopologyPricer, matrix: ByteMatrix) -> "MatrixPricer":
    """The prices of the ranks of a pricer for some bytes, kept for few matrices."""
    return of.of_matrices.get(matrix, ALGORITHMS, partial(MatrixPricer, of, matrix))


def question_of(matrix: ByteMatrix) -> Question:
    """The question of an alltoall with blocks of the bytes of a matrix.

    Its bytes are those of the blocks for other ranks: one less than a buffer has.
    """
    blocks = tuple(matrix.nbytes.ravel().tolist())
    buffers = max(1, matrix.size - 1)
    return Question(
        ALLTOALL, (n := matrix.total), block_nbytes=blocks, buffers=buffers, only=n
    )


def by_blocks(question: Question, pricer: Pricer) -> tuple[Question, Pricer]:
    """A question by the bytes of its blocks, if it names a synthesised schedule.

    Such a schedule is made for these bytes, which takes longer than most calls; others
    are decided by the mean block.
    """
    nbytes, asked = question.block_nbytes, question.algorithm
    names = (asked,) if isinstance(asked, str) else asked
    if nbytes is None or names is None or callable(names):
        return question, pricer
    if question.collective != ALLTOALL or not any(map(is_name, names)):
        return question, pricer
    if not isinstance(pricer, TopologyPricer):
        return question, pricer
    if not can_plan(ALLTOALL, pricer.placement):
        return question, pricer
    table = np.array(nbytes, np.int64).reshape(pricer.size, pricer.size)
    matrix = ByteMatrix(table)
    of = question_of(matrix)
    whole = question._replace(nbytes=of.nbytes, buffers=of.buffers)
    return whole, matrix_pricer(pricer, matrix)


class MatrixPricer(TopologyPricer):
    """The prices of all candidates for an alltoall with blocks of different sizes.

    They are over the bytes of all pairs of ranks together, in the proportions of the
    matrix.

    Parameters
    ----------
    of
        The prices of the same ranks.
    matrix
        The bytes from each rank to each.

    Raises
    ------
    TopologyError
        If the matrix is for another number of ranks, or the hosts are one.
    """

    def __init__(self, of: TopologyPricer, matrix: ByteMatrix):
        matrix.check_size(of.size)
        placement = of.placement
        if isinstance(of.topology, UniformCluster):
            raise hosts_are_one(of.topology.name)
        super().__init__(of.topology, placement.link_model, placement.devices)
        self.placement, self.features = placement, of.features
        self.matrix, self._of = matrix, of
        self._prices = MatrixPrices(self, matrix)
        self._planner = MatrixPlanner(placement, matrix, of.planner)
        self._synthesis = MatrixCandidates(placement, self._planner, matrix)

    def bound(self, _collective: str) -> Bound | None:
        """The lower bound of the matrix; None if not all devices have a rank."""
        if not self._has_all_ranks:
            return None
        return self.computed("bound", [], self._bound)

    def _bound(self) -> Bound:
        """The lower bound, for which the ranks are in the order of the machine."""
        assert isinstance(self.topology, Topology)
        rank = {device: i for i, device in enumerate(self.placement.devices)}
        matrix = self.matrix.reordered([rank[one] for one in ranks_of(self.topology)])
        model = self.placement.link_model
        return bound(ALLTOALLV, self.topology, link_model=model, counts=matrix)

    @property
    def _identity(self) -> str:
        return f"{super()._identity} {self.matrix.digest}"

    def _orders(self, _row: Algorithm) -> list[str]:
        """The order of the numbers of ranks only: each has a meaning in a matrix."""
        return [""]

    def _is_fit(self, row: Algorithm, order: str) -> bool:
        """Whether ranks can run a variant, and it does not take too long to price."""
        return super()._is_fit(row, order) and self._prices.obstacle(row) is None

    def _cheapest(
        self, collective: str, reproducible: bool, only: int | None
    ) -> Choices:
        found = super()._cheapest(collective, reproducible, only)
        self._planner.forget_traffic()
        return found

    def private_copy(self) -> "MatrixPricer":
        """The same ranks, with prices that no other thread computes or shares."""
        return MatrixPricer(self._of.private_copy(), self.matrix)

    def first_choices(
        self, _collective: str, _reproducible: bool
    ) -> tuple[Choices, float]:
        """No choices by formulas: they know no matrix."""
        return Choices([]), 0.0


class MatrixPrices(LazyPrices):
    """The prices of algorithms of the table for a matrix.

    Parameters
    ----------
    pricer
        Gives the rows in orders of ranks.
    matrix
        The bytes from each rank to each.
    """

    def __init__(self, pricer: MatrixPricer, matrix: ByteMatrix):
        super().__init__(pricer.placement, pricer.features)
        self._pricer, self._matrix = pricer, matrix
        self._least_line = Line(0.0, port_floor(pricer.placement, matrix))

    def obstacle(self, row: Algorithm) -> str | None:
        """Why an algorithm takes too long to price: all blocks are priced singly."""
        if is_name(row.name):  # plans are for few ranks
            return None
        blocks = self._blocks(row)
        if blocks <= MOST_BLOCKS:
            return None
        size = self._placement.size
        return f"its {blocks} blocks on {size} ranks take too long to price"

    def _blocks(self, row: Algorithm) -> int:
        """The blocks that all ranks pass on, if each passes as many as rank 0."""
        size = self._placement.size
        share = self._traces(row).of(range(1)).share.sum()
        return round(float(share) * size**3) * segments_of(row)

    def of(self, tried: Sequence[tuple[Algorithm, str]]) -> list[LazyCandidate]:
        """Algorithms in orders of ranks, priced at first by the links of ranks."""
        return [
            LazyCandidate(
                row, order, self._least_line, partial(self._price, row, order)
            )
            for row, order in tried
        ]

    def _price(self, row: Algorithm, order: str) -> Iterator[Line]:
        """The price of an algorithm in an order of ranks."""
        placement = self._pricer.placement
        schedule = self._schedule(self._pricer.in_order(row, order))
        messages = matrix_messages(schedule, placement.size, self._matrix.part)
        yield rounds(messages, placement.routes).line

    def _schedule(self, row: Algorithm) -> ScheduleFunction:
        """The schedule of a row, with the parameters that follow from the bytes."""
        if row.parameters_for_counts is None:
            return row.schedule
        nbytes = self._matrix.nbytes.ravel().tolist()
        return partial(row.schedule, **row.parameters_for_counts(nbytes))


class MatrixCandidates(SynthesisCandidates):
    """The candidates that are planned for a matrix.

    Parameters
    ----------
    placement, planner
        As of :class:`SynthesisCandidates`.
    matrix
        The bytes from each rank to each.
    """

    def __init__(
        self, placement: Placement, planner: MatrixPlanner, matrix: ByteMatrix
    ):
        super().__init__(placement, planner)
        self._matrix = matrix

    def _floor(self, _collective: str) -> float:
        return port_floor(self._placement, self._matrix)


def port_floor(placement: Placement, matrix: ByteMatrix) -> float:
    """Seconds for each byte of all pairs that the links of each rank take at least."""
    speeds = port_speeds(placement)
    if not all(speeds) or not matrix.total:
        return 0.0
    nbytes = matrix.nbytes
    most = [
        max(a, b) for a, b in zip(nbytes.sum(axis=0), nbytes.sum(axis=1), strict=True)
    ]
    busiest = max(n / speed for n, speed in zip(most, speeds, strict=True))
    return float(busiest) / matrix.total
