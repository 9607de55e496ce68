"""Calls on one array in their order: what is packed is packed when its turn comes."""

import threading
import time

import numpy as np
import pytest

import collalgo
from collalgo import threads

SIZES = [1, 2, 3, 5, 8]

#: Views of an array, contiguous and not.
VIEWS = {
    "all": np.s_[:],
    "every second": np.s_[::2],
    "reverse": np.s_[::-1],
    "every third": np.s_[1::3],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", SIZES)
def test_each_call_has_what_the_one_before_has_left(size, view):
    def on_each_rank(comm):
        x = np.ones(24, np.int64)
        part = x[VIEWS[view]]
        for work in [comm.allreduce_async(part) for _ in range(4)]:
            work.wait()
        assert (part == size**4).all()
        assert x.sum() == 24 + part.size * (size**4 - 1)

    threads(on_each_rank, size, timeout=60)


class Mixed:
    """Calls of all kinds on one array, and what they must leave in it.

    All ranks have the same there before each call.
    """

    def __init__(self, comm):
        self.comm = comm
        self.x = np.ones(24)
        self.expected = self.x.copy()
        self.right = True
        self.again = {
            name: comm.persistent_allreduce(self.x[v], "max")
            for name, v in VIEWS.items()
        }

    def make(self, kind, name):
        """Make a call: what is to be waited for."""
        view = VIEWS[name]
        part = self.x[view]
        if kind == "again":
            return self.again[name].start()
        if kind == "allgather":
            out = np.empty((self.comm.size, part.size), self.x.dtype)
            expected = self.expected[view].copy()
            work = self.comm.allgather_async(part, out=out)
            work.add_done_callback(lambda _: self.check(out, expected))
            return work
        self.expected[view] *= self.comm.size
        if kind == "bucket":
            with self.comm.bucket() as bucket:
                return bucket.allreduce(part)
        if kind == "foreground":
            self.comm.allreduce(part)
            return None
        assert kind == "background"
        return self.comm.allreduce_async(part)

    def check(self, out, expected):
        self.right = self.right and (out == expected).all()


@pytest.mark.parametrize("size", SIZES)
def test_calls_of_all_kinds_are_made_in_their_order(size):
    def on_each_rank(comm):
        mixed = Mixed(comm)
        dice = np.random.default_rng(size)
        works = []
        for _ in range(30):
            kind = dice.choice(
                ["background", "again", "allgather", "foreground", "bucket"],
                p=[0.4, 0.2, 0.2, 0.1, 0.1],
            )
            if kind == "again":  # may not be under way twice
                for work in works:
                    work.wait()
            work = mixed.make(kind, dice.choice(list(VIEWS)))
            if work is not None:
                works.append(work)
        for work in works:
            work.wait()
        assert mixed.x.tolist() == mixed.expected.tolist()
        assert mixed.right

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_root_keeps_its_part_of_a_scatter_in_turn(size, strided):
    def on_each_rank(comm):
        step = 2 if strided else 1
        table = np.ones((size, 3 * step))[:, ::step]
        out = np.zeros(3)
        rows, few = np.ones((2 * size, 2 * step))[:, ::step], np.zeros((2, 2))
        root, at_root = size - 1, comm.rank == size - 1
        works = [
            comm.allreduce_async(table),
            comm.scatter_async(table if at_root else out, root, out=out),
            comm.allreduce_async(out),
            comm.allreduce_async(rows),
            comm.scatterv_async(rows if at_root else few, [2] * size, root, out=few),
            comm.allreduce_async(few),
        ]
        assert works[1].wait() is out
        for work in works:
            work.wait()
        assert all((found == size**2).all() for found in (out, few))

    threads(on_each_rank, size, timeout=60)


def test_what_a_scatter_cannot_keep_is_refused_before_it():
    def on_each_rank(comm):
        x = np.arange(6.0).reshape(3, 2)
        if comm.rank == 0:
            for out in (np.zeros(3), np.zeros(2, int), x[1]):
                with pytest.raises((TypeError, ValueError), match="scatter: out "):
                    comm.scatter(x, out=out)
        got = comm.scatter(x if comm.rank == 0 else np.zeros(2))
        assert got.tolist() == [2 * comm.rank, 2 * comm.rank + 1]

    threads(on_each_rank, 3, timeout=60)


def test_arrays_that_go_together_may_not_share_memory():
    def on_each_rank(comm):
        x = np.ones(8)
        with comm.bucket() as bucket:
            bucket.allreduce(x[::2])
            bucket.allreduce(x[1::2])
            with pytest.raises(ValueError, match="shares memory with array 0"):
                bucket.allreduce(x[::-1][1:3])
            bucket.flush()
            bucket.allreduce(x)
        assert (x == comm.size**2).all()

    threads(on_each_rank, 3, timeout=60)


def test_messages_of_strided_arrays_go_in_their_order():
    def on_each_rank(comm):
        x = np.arange(8.0)
        if comm.rank == 0:
            for work in [comm.isend(x[::2], 1) for _ in range(3)]:
                work.wait()
        else:
            parts = np.zeros((3, 8))
            works = [comm.irecv(part[::-2], 0) for part in parts]
            works[-1].wait()
            assert (parts[:, ::-2] == x[::2]).all()
            assert not parts[:, ::2].any()

    threads(on_each_rank, 2, timeout=60)


def test_a_call_that_cannot_be_packed_fails_for_all():
    go_on = threading.Event()

    def on_each_rank(comm):
        x = np.ones(8)[::2]
        if comm.rank:
            go_on.wait()
        first = comm.allreduce_async(np.ones(3))
        work = comm.allreduce_async(x)
        if comm.rank == 0:
            x.flags.writeable = False
            go_on.set()
        assert (first.wait() == comm.size).all()
        with pytest.raises((ValueError, collalgo.PeerFailed)) as caught:
            work.wait()
        assert isinstance(caught.value, ValueError) == (comm.rank == 0)

    threads(on_each_rank, 3, timeout=60)


def is_resized(x):
    """Whether an array can be resized, were it forced."""
    try:
        x.resize(x.size + 100_000, refcheck=False)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_cannot_be_resized_during_a_call(view):
    checked = threading.Barrier(3)

    def on_each_rank(comm):
        x, y = np.ones(24), np.ones(24)
        for _ in range(3):
            if comm.rank:
                checked.wait()
            work = comm.allreduce_async(x[VIEWS[view]], out=y[VIEWS[view]])
            if comm.rank == 0:
                resized = is_resized(x), is_resized(y)
                checked.wait()
                assert resized == (False, False)
            work.wait()
        again = comm.persistent_allreduce(x[VIEWS[view]])
        again()
        again.start().wait()
        assert not is_resized(x)
        comm.barrier()
        del again
        assert all(map(is_resized, (x, y)))

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("count", [1, 1 << 16])
def test_another_thread_cannot_resize_the_arrays_of_a_call(count, step):
    come = threading.Event()

    def on_each_rank(comm):
        comm.allreduce(np.ones(count))  # what a first call prepares takes a while
        if comm.rank:
            come.wait()
            comm.allreduce(np.ones(count))
            return
        x, resized = np.ones(count * step), []

        def resize():
            time.sleep(0.2)  # until rank 0 waits in the call
            resized.append(is_resized(x))
            come.set()

        other = threading.Thread(target=resize)
        other.start()
        comm.allreduce(x[::step])
        other.join()
        assert resized == [False]
        assert is_resized(x)

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("count", [24, 1 << 17])
def test_the_array_of_a_receive_cannot_be_resized(count, view):
    def on_each_rank(comm):
        x, other = np.zeros(count), 1 - comm.rank
        message = comm.irecv(x[VIEWS[view]], other)
        assert not is_resized(x)
        comm.barrier()
        sent = comm.isend(np.full(count, 7.0)[VIEWS[view]], other)
        message.wait()
        sent.wait()
        assert (x[VIEWS[view]] == 7).all()
        del message
        assert is_resized(x)

    threads(on_each_rank, 2, timeout=60)
