"""Cells make the right calls, and count wrong elements honestly."""

import numpy as np
import pytest
from collalgo.bench.cells import PLACES, Bench, Cell, able, differing, ops_of

from collalgo import threads
from collalgo.base.units import sizes_between


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_collective_place_and_op_is_right(size):
    cells = [
        Cell(collective, nbytes, dtype, op, size - 1, place)
        for collective, places in PLACES.items()
        for place in places
        for op in ops_of(collective, "all")
        for dtype in ("float32", "int8", "float16", "bfloat16", "complex64")
        for nbytes in (8, 3000)
        if able(Cell(collective, nbytes, dtype, op))
    ]

    def on_each_rank(comm):
        return [bench.wrong() for bench in (Bench(cell, comm) for cell in cells)]

    for wrong in threads(on_each_rank, size):
        assert not any(wrong)


def test_wrong_elements_are_counted():
    """With data in place of the result, what must come from others is missing."""

    class Broken(Bench):
        def call(self, algorithm=None):
            return lambda: self.source

    def on_each_rank(comm):
        return Broken(Cell("allreduce", 400, op="sum"), comm).wrong()

    assert threads(on_each_rank, 2) == [200, 200]


def test_floats_may_differ_by_rounding_only():
    one = np.float32([1, 2, np.nan, 4])
    near = one * (1 + np.finfo(np.float32).eps)
    assert differing(near, one) == 1  # the nan
    assert differing(np.float32([1, 2.1]), np.float32([1, 2])) == 1
    assert differing(np.int8([1, 2]), np.int8([1, 3])) == 1
    assert differing(np.complex64([1 + 1j]), np.complex64([1 - 1j])) == 1


def test_sizes_count_all_blocks():
    assert Cell("allgather", 100).counts(4) == (6, 24)
    assert Cell("allreduce", 100).counts(4) == (25, 25)
    assert Cell("alltoall", 1, "float64").counts(3) == (1, 3)
    assert Cell("barrier", 100).counts(4) == (0, 0)
    assert Cell("allreduce", 8).busbw_factor(4) == 1.5
    assert Cell("gather", 8).busbw_factor(4) == 0.75
    assert Cell("broadcast", 8).busbw_factor(4) == 1
    assert sizes_between(8, 100, 3) == [8, 24, 72]
