"""Groups in memory that earlier groups have used."""

import numpy as np
import pytest

from collalgo import threads

pytestmark = pytest.mark.parallel


def some_calls(group, rng, kind):
    """Calls that agree with NumPy; the kinds use different parts of the memory."""
    me, size = group.rank, group.size
    count = int(rng.integers(0, 40)) if kind < 3 else int(rng.integers(3000, 40000))
    for _ in range(int(rng.integers(0, 12))):
        everyone = rng.integers(-9, 9, (size, count))
        np.testing.assert_array_equal(
            group.allreduce(everyone[me].copy()), everyone.sum(axis=0)
        )
        np.testing.assert_array_equal(group.allgather(everyone[me]), everyone)
    if kind == 4 and size > 1:
        sent = group.isend(np.full(count, me), (me + 1) % size)
        left = (me - 1) % size
        got = group.recv(np.empty(count, int), left)
        np.testing.assert_array_equal(got, np.full(count, left))
        sent.wait()
    if kind == 5:
        x = group.empty(count, "int64")
        x[:] = me
        assert (group.allreduce(x) == sum(range(size))).all()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_of_all_sizes_make_right_calls_one_after_the_other(size):
    def on_each_rank(comm):
        rng = np.random.default_rng(size)  # the same on all ranks
        kept = []
        for number in range(25):
            colors = rng.integers(0, 3, size)
            kinds = rng.integers(0, 6, 3)
            group = comm.split(int(colors[comm.rank]), key=int(rng.integers(2)))
            of_group = np.random.default_rng([number, int(colors[comm.rank])])
            some_calls(group, of_group, kinds[colors[comm.rank]])
            kept.append(group)
            if len(kept) > 3:
                kept.pop(int(rng.integers(4))).close()

    threads(on_each_rank, size, timeout=100)
