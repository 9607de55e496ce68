"""Cells make the right calls, and count wrong elements honestly."""

import numpy as np
import pytest
from collalgo.bench.cells import PLACES, Bench, Cell, able, differing, ops_of
from collalgo.bench.jobs import rounded
from collalgo.bench.options import sizes_of
from collalgo.bench.sweep import Sweep

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


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_sizes_of_as_many_elements_are_one_cell_and_small_ones_are_named(ranks):
    todo = Sweep(("allreduce", "alltoall"), sizes=(0, 1, 3, 4, 256), op="all")
    for collective in todo.collectives:
        cells = [one for one in todo.cells(ranks) if one.collective == collective]
        counts = [(one.counts(ranks), one.op) for one in cells]
        assert len(set(counts)) == len(counts)
        assert {count for (_, count), _ in counts} == {
            ranks if collective == "alltoall" else 1,
            64 // ranks * ranks if collective == "alltoall" else 64,
        }
    assert rounded(todo).startswith("0 B, 1 B, 3 B: an array has at least one element")
    assert rounded(Sweep(sizes=(4, 8))) == ""
    assert rounded(Sweep(("barrier",), sizes=(0,))) == ""


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 8, [0, 1, 2, 4, 8]),
        (0, 0, [0]),
        (None, 0, [0]),
        (None, 4, [4]),
        (None, 16, [8, 16]),
        (128 << 20, None, [128 << 20]),
    ],
)
def test_a_border_of_zero_or_beyond_the_default_of_the_other_is_kept(
    first, last, expected
):
    options = {"sizes": None, "first": first, "last": last, "factor": None}
    assert sizes_of(options) == expected
