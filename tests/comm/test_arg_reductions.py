"""Ops that find the rank, or the index, of the extreme value, in every call."""

import subprocess
import sys

import numpy as np
import pytest

from collalgo import MismatchError, threads
from tests.support.leisure import at_leisure

SIZES = at_leisure((1, 2, 3, 5, 7, 8, 12, 16, 17, 33), (1, 2, 5, 12))

#: The ops, with those of pairs and NumPy's functions.
OPS = {"argmin": ("minloc", np.argmin), "ARGMAX": ("maxloc", np.argmax)}


def contributions(size, dtype="f8", shape=(24,)):
    """Few different values, so that some are equal; some NaN."""
    rng = np.random.default_rng(size)
    found = rng.integers(0, 3, (size, *shape)).astype(dtype)
    if found.dtype.kind == "f":
        found[size // 2, ::5] = np.nan
    return found


def exclusive(best, rank, values):
    return best(values[:rank], axis=0) if rank else np.full(values.shape[1:], -1)


def block(array, rank, size):
    return np.array_split(array, size)[rank]


#: By the call, what a rank gets from all contributions; None for nothing.
CALLS = {
    "allreduce": lambda best, rank, values: best(values, axis=0),
    "reduce": lambda best, rank, values: None if rank else best(values, axis=0),
    "scan": lambda best, rank, values: best(values[: rank + 1], axis=0),
    "exscan": exclusive,
    "reduce_scatter": lambda best, rank, values: block(
        best(values, axis=0), rank, len(values)
    ),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("size", SIZES)
def test_every_call_finds_the_ranks_of_the_extreme_values(size, call, op):
    values, (_, best) = contributions(size), OPS[op]

    def on_each_rank(comm):
        mine = values[comm.rank].copy()
        wanted = CALLS[call](best, comm.rank, values)
        forms = (
            lambda: getattr(comm, call)(mine, op),
            lambda: getattr(comm, f"{call}_async")(mine, op).wait(),
        )
        for found in (form() for form in forms):
            assert mine.tobytes() == values[comm.rank].tobytes()  # unchanged
            assert (found is None) == (wanted is None)
            if found is not None:
                assert found.dtype == np.int64
                assert found.tolist() == wanted.tolist()

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("size", SIZES)
def test_a_pair_of_arrays_has_the_values_and_their_indices(size, call, op):
    values, (of_pair, best) = contributions(size), OPS[op]

    def on_each_rank(comm):
        pair = values[comm.rank].copy(), np.full(24, comm.rank + 100, np.uint16)
        if call == "exscan" and not comm.rank:
            getattr(comm, call)(pair, of_pair)
            assert pair[0].tobytes() == values[0].tobytes()  # as of any op
            return
        places = CALLS[call](best, comm.rank, values)
        found = getattr(comm, call)(pair, of_pair)
        assert (found is None) == (places is None)
        if found is None:
            return
        assert found is pair or call == "reduce_scatter"
        assert found[1].dtype == np.uint16
        assert found[1].tolist() == (places + 100).tolist()
        columns = block(np.arange(24), comm.rank, size)
        columns = columns if call == "reduce_scatter" else np.arange(24)
        np.testing.assert_array_equal(found[0], values[places, columns])

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u8", ">i4", "f2", "f4", ">f8", "g", "M8[s]", "U3", "bfloat16"],
)
def test_values_of_any_ordered_dtype_are_compared(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    values = np.random.default_rng(0).integers(0, 3, (3, 40))
    values = (values > 1 if dtype == "?" else values.astype("i8")).astype(dtype)

    def on_each_rank(comm):
        for op, best in (("argmin", np.argmin), ("argmax", np.argmax)):
            ranked = np.unique(values, return_inverse=True)[1].reshape(values.shape)
            found = comm.allreduce(values[comm.rank].reshape(4, 10), op)
            assert found.ravel().tolist() == best(ranked, axis=0).tolist()

    threads(on_each_rank, 3, timeout=60)


def test_results_are_written_to_out_and_by_prepared_calls():
    def on_each_rank(comm):
        values, out = np.zeros(6, np.float32), np.zeros(6, np.int64)
        prepared = comm.persistent_allreduce(values, "argmax", out=out)
        for winner in (0, 2, 1):
            values[:] = winner == comm.rank
            assert prepared() is out
            assert out.tolist() == [winner] * 6
        rows, counts = np.full(7, comm.rank), [1, 2, 4]
        mine = np.zeros(counts[comm.rank], np.int64)
        assert comm.reduce_scatterv(rows, "argmax", out=mine) is mine
        assert mine.tolist() == [2] * counts[comm.rank]
        found = comm.reduce_scatter_block(rows[:6], "argmax")
        assert found.tolist() == [2, 2]
        pair = np.zeros(7, int), np.zeros(7, np.int32)
        assert comm.allreduce((rows, rows), "maxloc", out=(np.zeros(7, int), rows))
        assert comm.scan((rows, pair[1]), "minloc", out=pair) is pair

    threads(on_each_rank, 3, timeout=60)


def test_the_place_of_the_least_value_of_a_shared_array_is_found():
    whole = np.random.default_rng(1).random(100)

    def on_each_rank(comm):
        part = np.array_split(np.arange(100), comm.size)[comm.rank]
        best = part[whole[part].argmin()]
        value, index = comm.allreduce((whole[[best]], np.array([best])), "minloc")
        return value[0], index[0]

    wanted = (whole.min(), whole.argmin())
    assert threads(on_each_rank, 4, timeout=60) == [wanted] * 4


def test_arg_reductions_follow_those_in_the_background():
    def on_each_rank(comm):
        x = np.full(1000, comm.rank)
        work = comm.allreduce_async(x, "sum")
        assert set(comm.allreduce(x, "argmax").tolist()) == {0}  # as all are equal
        work.wait()

    threads(on_each_rank, 3, timeout=60)


def test_lists_of_elements_of_two_fields_are_several_arrays_still():
    pair = np.dtype([("value", "f8"), ("index", "i8")])

    def on_each_rank(comm):
        arrays = [np.full(3, np.array((comm.rank,) * 2, pair)) for _ in range(2)]
        comm.allreduce(arrays, "maxloc")
        assert [each["index"].tolist() for each in arrays] == [[2] * 3] * 2

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "out", "words"),
    [
        ((np.zeros(3, "i4,f8"), "argmin"), None, "cannot compare elements of"),
        ((np.zeros(3, "V4"), "argmin"), None, "cannot compare elements of"),
        (([np.zeros(3)], "argmin"), None, "takes one array but got a list of 1"),
        (((np.zeros(3),) * 2, "argmax"), None, "with indices pass op 'maxloc'"),
        (([1.0, 2.0], "argmin"), None, "wrap it with numpy.array"),
        ((np.zeros(3), "minloc"), None, "pass a pair"),
        ((np.zeros(3), np.argmin), None, "pass op='argmin'"),
        (((np.zeros(3), np.zeros(3)), "minloc"), None, "indices have dtype float64"),
        (((np.zeros(3), np.zeros(2, int)), "minloc"), None, r"indices have \(2,\)"),
        ((np.zeros(3), "argmin"), np.zeros(3), "out has .* but the result has int64"),
        ((np.zeros(3), "argmin"), np.zeros(2, int), "out has shape"),
        (((np.zeros(3), np.zeros(3, int)), "minloc"), np.zeros(3), "pass two arrays"),
    ],
)
def test_wrong_arguments_are_refused_before_any_message(arguments, out, words):
    def on_each_rank(comm):
        with pytest.raises((TypeError, ValueError), match=words):
            comm.allreduce(*arguments, out=out)
        assert comm.allreduce(np.array([comm.rank]), "argmax") == 1

    threads(on_each_rank, 2, timeout=60)


def test_both_results_of_a_block_must_have_one_shape():
    def on_each_rank(comm):
        rows = np.arange(6) + comm.rank
        for length in (1, 6):  # which would be repeated, and which does not fit
            out = np.zeros(3, int), np.zeros(length, int)
            with pytest.raises(ValueError, match=rf"but out\[1\] has \({length},"):
                comm.reduce_scatter((rows, rows), "minloc", out=out)
        assert comm.allreduce(np.array([comm.rank]), "argmax") == 1

    threads(on_each_rank, 2, timeout=60)


class Text(str):
    """A text that is not of the type str itself, as np.str_."""


def test_ops_reach_pairs_by_every_name():
    def on_each_rank(comm):
        mine = np.array([comm.rank, -comm.rank])
        for name in (np.str_("argmin"), Text("argmin")):
            assert comm.allreduce(mine, name).tolist() == [0, 2]
        pair = mine.copy(), np.full(2, comm.rank + 10)
        comm.allreduce(pair, np.str_("MINLOC"))
        assert [each.tolist() for each in pair] == [[0, -2], [10, 12]]
        arrays = [mine.copy(), mine.copy()]
        assert comm.allreduce(arrays, np.add) is arrays  # a list of two, as ever
        assert arrays[1].tolist() == [3, -3]

    threads(on_each_rank, 3, timeout=60)


OF_MPI4PY = """
import numpy as np
from mpi4py import MPI
import collalgo
def on_each_rank(comm):
    pair = np.array([comm.rank + 1.0]), np.array([comm.rank])
    return [float(each[0]) for each in comm.allreduce(pair, MPI.MINLOC)]
print(collalgo.threads(on_each_rank, 2))
"""


def test_an_op_of_mpi4py_reduces_pairs():
    pytest.importorskip("mpi4py")
    found = subprocess.run(
        [sys.executable, "-c", OF_MPI4PY], capture_output=True, text=True, timeout=60
    )
    assert found.stdout.splitlines()[-1:] == ["[[1.0, 0.0], [1.0, 0.0]]"], found.stderr


def test_ranks_of_extreme_values_are_never_rounded():
    def on_each_rank(comm):
        mine = np.array([0.1 * comm.rank])
        return comm.allreduce(mine, "argmax", reproducible="invariant").tolist()

    assert threads(on_each_rank, 3, timeout=60) == [[2]] * 3


@pytest.mark.parametrize("op", ["argmin", np.str_("ARGMAX")])
@pytest.mark.parametrize("negotiate", [False, True])
def test_a_bucket_refuses_ops_with_results_elsewhere(negotiate, op):
    def on_each_rank(comm):
        words = f"op '{op.lower()}' are ranks"
        with pytest.raises(ValueError, match=words):
            comm.bucket(op, negotiate=negotiate)
        assert comm.allreduce(np.array([comm.rank]), op).shape == (1,)

    threads(on_each_rank, 2, timeout=60)


def test_memory_of_results_must_not_be_shared():
    def on_each_rank(comm):
        x = np.zeros(3, int)
        with pytest.raises(ValueError, match="result share memory"):
            comm.allreduce((x, x), "minloc")
        x.flags.writeable = False
        with pytest.raises(ValueError, match=r"buf\[0\] is read-only"):
            comm.allreduce((x, np.zeros(3, int)), "minloc")

    threads(on_each_rank, 2, timeout=60)


def test_ranks_with_other_ops_or_dtypes_are_named():
    def on_each_rank(comm):
        comm.allreduce(np.zeros(3), "argmin" if comm.rank else "argmax")

    with pytest.raises(MismatchError, match=r"passed op 'arg.*' but .* op 'arg"):
        threads(on_each_rank, 2, timeout=60)

    def with_dtypes(comm):
        comm.allreduce(np.zeros(3, "f4" if comm.rank else "f8"), "argmin")

    with pytest.raises(MismatchError, match="every rank must pass the same dtype"):
        threads(with_dtypes, 2, timeout=60)
