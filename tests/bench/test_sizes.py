"""Calls of new sizes are compared with the same calls again, also of uneven blocks."""

from functools import partial
from itertools import chain, product

import numpy as np
import pytest
from click.testing import CliRunner
from collalgo.bench.cells import BLOCKS
from collalgo.bench.cli import main
from collalgo.bench.sizes import CALLS, SIZES, Blocks, sizes

from collalgo import threads

COUNTS = (1, 2, 7, 100)


@pytest.mark.parametrize("size", [1, 3])
def test_each_collective_is_measured_at_each_size(size):
    found = threads(partial(sizes, mpi=False, most=2), size, timeout=60)
    assert all(each == found[0] for each in found)
    rows = [(name, nbytes) for name in CALLS for nbytes in SIZES]
    assert [row[:2] for row in found[0]] == rows
    assert all(row.seen > 0 and row.mpi is None for row in found[0])


def received(name, size, rank, lengths):
    """What a rank receives, of element i of rank r with the value i * size + r."""

    def sent(by, first, number):
        return (np.arange(first, first + number) * size + by).tolist()

    begins = [0, *np.cumsum(lengths)]
    if name in ("allgather", "gather"):
        by_all = [sent(by, 0, lengths[by]) for by in range(size)]
        return [*chain(*by_all)] if name == "allgather" or rank == 0 else []
    if name == "scatter":
        return sent(0, begins[rank], lengths[rank])
    if name == "reduce_scatter":
        blocks = [sent(by, begins[rank], lengths[rank]) for by in range(size)]
        return np.sum(blocks, axis=0).astype(int).tolist()
    found = []  # an alltoall, whose rank r sends lengths[r:] + lengths[:r]
    for by in range(size):
        table = lengths[by:] + lengths[:by]
        found += sent(by, sum(table[:rank]), table[rank])
    return found


@pytest.mark.parametrize("size", [1, 2, 5])
def test_even_and_uneven_blocks_move_the_right_elements(size):
    def results(comm, name, count):
        """What the ranks receive, and the elements of each of their blocks."""
        memory = np.arange(size * count) * size + comm.rank, np.full(size * count, -1)
        blocks = Blocks(memory, name, count, comm.rank, size)
        blocks.call(comm, name)()
        return memory[1], blocks.lengths

    for name, count in product(BLOCKS, COUNTS):
        for call in (name, f"{name}v"):
            found = threads(lambda c, n=call, k=count: results(c, n, k), size)
            lengths = found[0][1]
            for rank, (memory, _) in enumerate(found):
                right = received(name, size, rank, lengths)
                assert memory[: len(right)].tolist() == right, (call, count, rank)
                assert (memory[len(right) :] == -1).all(), (call, count, rank)


@pytest.mark.parametrize("size", [2, 5])
def test_blocks_of_calls_with_counts_differ(size):
    memory = [np.zeros(size * 9)] * 2
    assert set(Blocks(memory, "gather", 9, 0, size).lengths) == {9}
    assert len(set(Blocks(memory, "gatherv", 9, 0, size).lengths)) == min(size, 3)


def test_the_command_shows_a_row_for_each():
    done = CliRunner().invoke(main, ["sizes", "-R", "2", "--most", "2"])
    assert done.exit_code == 0, done.output
    assert "2 ranks, us of the slowest" in done.output
    shown = [line.split()[0] for line in done.output.splitlines() if line.split()]
    assert [name for name in shown if name in CALLS] == [
        name for name in CALLS for _ in SIZES
    ]
