"""Groups in memory that earlier groups have used."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from collalgo import CommunicatorClosed, threads
from collalgo.comm.current import runner_of


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


def test_equal_groups_call_at_the_same_time_in_several_threads():
    """They share programs only one after the other."""

    def come_and_go(parent, seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            with parent.dup() as group:
                for count in rng.choice([3, 50, 4000], 4).tolist():
                    x = np.full(count, parent.rank + seed)
                    expected = sum(range(parent.size)) + parent.size * seed
                    assert (group.allreduce(x) == expected).all()
            with pytest.raises(CommunicatorClosed):
                group.allreduce(x)

    def on_each_rank(comm):
        parents = [comm.dup() for _ in range(3)]
        with ThreadPoolExecutor() as pool:
            list(pool.map(come_and_go, parents, range(3)))

    threads(on_each_rank, 2, timeout=60)


def test_an_equal_group_decides_anew_once_the_environment_has_changed(monkeypatch):
    def on_each_rank(comm):
        names = []
        for name in (None, "ring", None, "recursive_doubling"):
            comm.barrier()
            if comm.rank == 0:
                if name is None:
                    monkeypatch.delenv("COLLALGO_ALLREDUCE", raising=False)
                else:
                    monkeypatch.setenv("COLLALGO_ALLREDUCE", name)
            comm.barrier()
            with comm.dup() as group:
                group.allreduce(np.ones(50))
                recorder = runner_of(group).recorder
                names.append(recorder.program(recorder.count).algorithm)
            comm.barrier()
        return names

    for names in threads(on_each_rank, 4, timeout=60):
        assert names[0] == names[2]
        assert (names[1], names[3]) == ("ring", "recursive_doubling")
