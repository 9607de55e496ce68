"""Calls of new sizes are compared with the same calls again, also of uneven blocks."""

from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main
from collalgo.bench.sizes import ENDS, SIZES, Blocks, sizes

from collalgo import threads

COUNTS = (1, 2, 7, 100)


@pytest.mark.parametrize("size", [1, 3])
def test_each_collective_is_measured_at_each_size(size):
    found = threads(partial(sizes, mpi=False, most=2), size, timeout=60)
    assert all(each == found[0] for each in found)
    rows = [(name, nbytes) for name in ENDS for nbytes in SIZES]
    assert [row[:2] for row in found[0]] == rows
    assert all(row.seen > 0 and row.mpi is None for row in found[0])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_even_and_uneven_blocks_move_the_same_elements(size):
    def results(comm, name, count):
        """What the ranks receive, and the elements of each of their blocks."""
        memory = np.arange(size * count) * size + comm.rank, np.full(size * count, -1)
        blocks = Blocks(memory, name, count, comm.rank, size)
        blocks.call(comm, name)()
        return memory[1], blocks.lengths

    for name in ("allgather", "gather", "scatter", "reduce_scatter", "alltoall"):
        for count in COUNTS:
            found = threads(lambda c, n=name, k=count: results(c, n, k), size)
            uneven = threads(lambda c, n=f"{name}v", k=count: results(c, n, k), size)
            assert {tuple(lengths) for _, lengths in found} == {(count,) * size}
            lengths = uneven[0][1]
            assert size == 1 or len(set(lengths)) > 1
            received = [int((each >= 0).sum()) for each, _ in uneven]
            whole = [sum(lengths)] * size
            if name == "gather":
                whole[1:] = [0] * (size - 1)
            is_block = name in ("scatter", "reduce_scatter")
            assert received == (lengths if is_block else whole), (name, count)


def test_the_command_shows_a_row_for_each():
    done = CliRunner().invoke(main, ["sizes", "-R", "2", "--most", "2"])
    assert done.exit_code == 0, done.output
    assert "2 ranks, us of the slowest" in done.output
    for name in ENDS:
        assert done.output.count(f"{name} ") >= len(SIZES)
