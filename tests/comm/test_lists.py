"""Lists with an array for each rank, of different shapes, and arrays of the root."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from collalgo import MismatchError, threads
from collalgo.comm.current import runner_of
from collalgo.engine.dtypes import FLOAT8


def shape_of(source, target=0):
    return (source + 1, target + 2) if source else (2 * target,)


@pytest.mark.parametrize("size", [1, 3])
def test_an_allgather_goes_into_arrays_of_different_shapes(size):
    def on_each_rank(comm):
        out = [np.zeros(shape_of(rank), "f4") for rank in range(size)]
        mine = np.full(shape_of(comm.rank), comm.rank + 1, "f4")
        assert comm.allgather(mine, out=out) is out
        assert [set(each.ravel()) for each in out if each.size] == [
            {rank + 1} for rank in range(size) if out[rank].size
        ]
        work = comm.allgather_async(mine + 1, out=out)
        assert work.wait() is out
        assert out[-1].ravel()[0] == size + 1 if out[-1].size else True
        rows = np.zeros((size, 2))
        into = list(rows) if comm.rank else rows  # as the shapes are equal
        comm.allgather(np.full(2, float(comm.rank)), out=into)
        assert rows[:, 1].tolist() == list(range(size))

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [1, 3])
def test_an_alltoall_exchanges_a_list_of_arrays(size):
    def on_each_rank(comm):
        sent = [
            np.full(shape_of(comm.rank, to), 10 * comm.rank + to, "i4")
            for to in range(size)
        ]
        sent[-1] = sent[-1][..., ::-1]  # not contiguous
        found = comm.alltoall(sent)
        for source, each in enumerate(found):
            assert each.shape == shape_of(source, comm.rank)
            assert (each == 10 * source + comm.rank).all()
        out = [np.zeros_like(each) for each in found]
        assert comm.alltoall(sent, out=out) is out
        background = comm.alltoall_async(sent).wait()
        for one, other, third in zip(found, out, background, strict=True):
            assert (one == other).all()
            assert (one == third).all()

    threads(on_each_rank, size, timeout=60)


def test_lists_that_do_not_fit_are_refused():
    def on_each_rank(comm):
        x = np.ones(2)
        with pytest.raises(ValueError, match="out has 1 array, but there are 2 ranks"):
            comm.allgather(x, out=[x])
        with pytest.raises(ValueError, match=r"out\[\d\] has shape \(3,\) but buf"):
            comm.allgather(x, out=[np.ones(3), np.ones(3)])
        with pytest.raises(TypeError, match=r"out\[1\] has dtype int"):
            comm.allgather(x, out=[np.ones(2), np.ones(2, int)])
        with pytest.raises(ValueError, match=r"out\[\d\] shares memory with out\[\d\]"):
            comm.allgather(x, out=[x, x])
        with pytest.raises(ValueError, match="buf has 1 array"):
            comm.alltoall([x])
        with pytest.raises(ValueError, match="buf is empty"):
            comm.alltoall([])
        with pytest.raises(TypeError, match=r"buf\[0\]: needs an array"):
            comm.alltoall([1, 2])
        with pytest.raises(MismatchError, match="sends 2 elements to rank"):
            comm.alltoall([x, x], out=[np.ones(2), np.ones(3)])

    threads(on_each_rank, 2, timeout=60)


def test_an_array_is_no_list():
    def on_each_rank(comm):
        x = np.ones(2)
        with pytest.raises(TypeError, match="out is of type ndarray; pass a list of 2"):
            comm.alltoall([x, x], out=np.zeros((2, 3)))

    threads(on_each_rank, 2, timeout=60)


FORMS = {
    "plain": np.arange(6.0).reshape(2, 3),
    "scalar": np.array(7, np.int8),
    "empty": np.empty((0, 4), np.complex64),
    "structure": np.array([(1, [2.5, 3])], [("a", ">i2"), ("b", "f4", (2,))]),
    "text": np.array(["x", "abc"]),
    "time": np.array(["2020-01-01"], "M8[D]"),
    **{name: np.ones(2).astype(getattr(ml_dtypes, name)) for name in FLOAT8},
    "bfloat16": np.ones(2).astype(ml_dtypes.bfloat16),
    "int4": np.ones(2).astype(ml_dtypes.int4),
    "many fields": np.zeros(2, [(f"a long name {n}", "i4") for n in range(40)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_array_that_only_the_root_knows_is_broadcast(form):
    given = FORMS[form]

    def on_each_rank(comm):
        mine = given.copy() if comm.rank == 1 else None
        found = comm.broadcast(mine, 1, like=None)
        assert (found is mine) == (comm.rank == 1)
        assert (found.dtype, found.shape) == (given.dtype, given.shape)
        assert found.tobytes() == given.tobytes()
        assert runner_of(comm).call_number == 1

    threads(on_each_rank, 3, timeout=60)


def test_a_structure_that_only_the_root_knows_is_broadcast():
    def on_each_rank(comm):
        tree = {"w": [np.ones(2), np.arange(3)], 4: (np.ones(1, "f2"), None)}
        found = comm.broadcast(None if comm.rank else tree, like=None)
        assert found["w"][1].tolist() == [0, 1, 2]
        assert found[4][0].dtype == np.float16
        assert found[4][1] is None
        work = comm.broadcast_async(None if comm.rank else np.ones(3), like=None)
        assert work.wait().tolist() == [1, 1, 1]

    threads(on_each_rank, 2, timeout=60)


def test_an_array_of_the_form_of_another_is_broadcast():
    def on_each_rank(comm):
        like = np.zeros((2, 3), "f4")
        mine = None if comm.rank else np.ones((2, 3), "f4")
        found = comm.broadcast(mine, like=like)
        assert found is not like
        assert found.sum() == 6
        assert like.sum() == 0

    threads(on_each_rank, 2, timeout=60)


def test_what_cannot_be_described_fails_on_all_ranks():
    def on_each_rank(comm):
        with pytest.raises((TypeError, ValueError)) as caught:
            comm.broadcast("text", like=None)
        inner = np.zeros(2, [("a", ml_dtypes.bfloat16)])
        refused = "described" if comm.rank else "with like=None .* cannot be described"
        with pytest.raises((TypeError, ValueError), match=refused):
            comm.broadcast(inner, like=None)
        with pytest.raises(TypeError, match="like is 'x'; pass None or an array"):
            comm.broadcast(np.ones(1), like="x")
        assert comm.broadcast(np.ones(1), like=None) == 1
        return str(caught.value)

    first, second = threads(on_each_rank, 2, timeout=60)
    assert "needs an array" in first
    assert "broadcast #1: rank 0 passed no arrays that can be described" in second


def test_equal_and_uneven_blocks_have_calls_of_their_own():
    def on_each_rank(comm):
        rows, mine = np.arange(6.0), [[0, 2, 4], [6, 8, 10]][comm.rank]
        assert comm.reduce_scatter_block(rows).tolist() == mine
        found = comm.reduce_scatter_block_async(rows, "max").wait()
        assert found.tolist() == [value / 2 for value in mine]
        wanted = [[0], [2, 4, 6, 8, 10]][comm.rank]
        assert comm.reduce_scatterv(rows, counts=[1, 5]).tolist() == wanted
        out = np.zeros([1, 5][comm.rank])
        assert comm.reduce_scatterv(rows, out=out) is out
        assert out.tolist() == wanted
        work = comm.reduce_scatterv_async(rows, counts=[1, 5])
        assert work.wait().tolist() == wanted

    threads(on_each_rank, 2, timeout=60)


def test_blocks_that_do_not_fit_are_refused():
    def on_each_rank(comm):
        with pytest.raises(TypeError, match="reduce_scatterv: needs counts, or out"):
            comm.reduce_scatterv(np.ones(6))
        with pytest.raises(ValueError, match="length 5, not a multiple of the 2 ranks"):
            comm.reduce_scatter_block(np.ones(5))
        with pytest.raises(ValueError, match="reduce_scatterv: counts add up to 3"):
            comm.reduce_scatterv(np.ones(6), counts=[1, 2])
        swapped = np.ones(6, ">f8")
        for x, name in itertools.product(
            (np.ones(6), swapped), ("reduce_scatterv", "reduce_scatter_block")
        ):
            more = {"counts": [3, 3]} if name == "reduce_scatterv" else {}
            with pytest.raises(ValueError, match=f"^{name}: out has shape"):
                getattr(comm, name)(x, out=np.ones(2, x.dtype), **more)

    threads(on_each_rank, 2, timeout=60)
