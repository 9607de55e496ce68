"""Arguments that cannot be are refused with a reason."""

from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import AlgorithmNotApplicable, threads
from collalgo.algorithms import ring


class WithoutNumPy:
    """An array whose dtype NumPy does not have, as a bfloat16 tensor of torch."""

    def __dlpack__(self, **how):
        raise RuntimeError("unsupported dtype")

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize(
    ("buf", "error", "message"),
    [
        ([1, 2], TypeError, r"buf\[0\]: needs an array .* got int; wrap it with numpy"),
        (3.0, TypeError, "got float"),
        (None, TypeError, "got NoneType; .* like=None to a broadcast of what only"),
        (WithoutNumPy(), TypeError, r"cannot share the memory .*unsupported dtype"),
        (np.array([None]), TypeError, "dtype object is not .* as broadcast_object"),
        (np.array(["a"]), TypeError, "allreduce: op 'sum' is not defined for U1"),
        (b"bytes", ValueError, "buf is read-only.*pass a writeable array or out="),
        (np.broadcast_to(np.ones(1), 4), ValueError, "buf is read-only"),
    ],
)
def test_what_cannot_be_reduced_is_refused(alone, buf, error, message):
    with pytest.raises(error, match=message):
        alone.allreduce(buf)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_a_scalar_cannot_hold_a_result(dtype):
    scalar = getattr(pytest.importorskip("ml_dtypes"), dtype)
    source = np.ones(2, scalar)

    def on_each_rank(comm):
        mine = scalar(comm.rank)
        for call in (
            partial(comm.scatter, source, out=mine),
            partial(comm.allgather, source[0, ...], out=[mine, mine]),
            partial(comm.recv, mine, source=1 - comm.rank),
        ):
            with pytest.raises(ValueError, match="is read-only"):
                call()
        assert comm.allgather(mine).tolist() == [0, 1]

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ([("v", "f8", 2), ("i", "i8")], r"compare elements of \('<f8', \(2,\)\), in"),
        ([("v", "f8"), ("i", "i8", 2)], r"compare elements of \('<i8', \(2,\)\), in"),
        (
            [("v", [("a", "f8")]), ("i", "i8")],
            r"compare elements of \[\('a', '<f8'\)\]",
        ),
        (
            {"names": "vi", "formats": ["i8", "i8"], "offsets": [4, 0]},
            "fields that share no memory, but those of",
        ),
    ],
)
def test_pairs_that_cannot_be_compared_are_refused(alone, dtype, words):
    dtype = np.dtype(dtype)
    for op in ("minloc", "maxloc"):
        with pytest.raises(TypeError, match=f"allreduce: op {op!r} .*{words}"):
            alone.allreduce(np.zeros(3, dtype), op)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty(4), ValueError, r"out has shape \(4,\) but the result has \(3,\)"),
        (np.empty(3, "f4"), TypeError, "out has dtype float32 but buf has float64"),
        ([0, 0, 0], TypeError, "got list"),
        (np.broadcast_to(0.0, 3), ValueError, "out is read-only"),
    ],
)
def test_an_output_that_does_not_fit_is_refused(alone, out, error, message):
    with pytest.raises(error, match=message):
        alone.allreduce(np.ones(3), out=out)


def test_an_output_that_overlaps_is_refused_unless_it_is_the_same(alone):
    x = np.zeros(10)
    with pytest.raises(ValueError, match="out overlaps buf"):
        alone.allreduce(x[:6], out=x[4:])
    with pytest.raises(ValueError, match="out overlaps buf"):
        alone.allreduce(x[::2], out=x[:5])
    alone.allreduce(x[::2], out=x[1::2])
    alone.allreduce(x[:5], out=x[:5])
    alone.reduce_scatter(x, out=x)


def test_who_passes_the_output_as_op_is_told_how_to_pass_it(alone):
    with pytest.raises(
        ValueError,
        match=r"^reduce_scatter: op is of type ndarray; .* pass the target of the",
    ):
        alone.reduce_scatter(np.ones(2), np.ones(2))


def test_unknown_names_list_the_choices(alone):
    for dtype in (np.float32, np.int64):
        for call in (alone.allreduce, alone.reduce, alone.reduce_scatter, alone.scan):
            words = f"^{call.__name__}: unknown op 'plus'; choose one of sum"
            with pytest.raises(ValueError, match=words):
                call(np.ones(1, dtype), "plus")
    with pytest.raises(
        AlgorithmNotApplicable,
        match=r"no algorithm 'rng'; did you mean 'ring'\? There are one_shot",
    ):
        alone.allreduce(np.ones(1), algorithm="rng")
    with pytest.raises(TypeError, match="op 'band' is not defined for float64"):
        alone.allreduce(np.ones(1), "band")


def test_an_algorithm_that_cannot_run_is_never_replaced():
    def on_each_rank(comm):
        x = np.ones(2)
        with pytest.raises(
            AlgorithmNotApplicable,
            match="needs an even number of ranks but there are 3; choose one of direct",
        ):
            comm.allgather(x, algorithm="neighbor_exchange")
        with pytest.raises(AlgorithmNotApplicable, match=r"even.*no algorithm"):
            comm.allgather(x, algorithm=["neighbor_exchange", "bruk"])
        comm.allgather(x, algorithm=["neighbor_exchange", "bruck"])
        comm.allgather(x, algorithm=["neighbor_exchange", "bruck"])

    threads(on_each_rank, 3)


def test_a_wrong_schedule_of_the_user_moves_no_byte():
    def allreduce(group):
        yield from ring.reduce_scatter(group)

    def on_each_rank(comm):
        x = np.full(10, comm.rank)
        with pytest.raises(collalgo.ScheduleError, match="instead of"):
            comm.allreduce(x, algorithm=allreduce)
        assert (x == comm.rank).all()
        comm.allreduce(x)

    threads(on_each_rank, 3)


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_out_of_range_is_refused(root):
    def on_each_rank(comm):
        with pytest.raises(ValueError, match=f"root {root} is out of range.*3 ranks"):
            comm.broadcast(np.ones(1), root)
        with pytest.raises(ValueError, match="out of range"):
            comm.reduce(np.ones(1), root=root)

    threads(on_each_rank, 3)


def test_counts_must_fit(alone):
    with pytest.raises(ValueError, match=r"counts add up to 2 rows but buf has 3"):
        alone.reduce_scatter(np.ones(3), counts=[2])
    with pytest.raises(ValueError, match=r"must be 1 number of rows"):
        alone.reduce_scatter(np.ones(3), counts=[1, 2])
    with pytest.raises(
        ValueError, match="3 rows but counts give it 4; pass an array of 4"
    ):
        alone.allgatherv(np.ones(3), [4])
    with pytest.raises(
        ValueError, match=r"counts .2. give it 2; pass an array of 2 ro"
    ):
        alone.scatterv(np.ones(3), [2])
    with pytest.raises(ValueError, match="not a 0-d array"):
        alone.reduce_scatter(np.array(1.0))


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_a_positive_number(alone, timeout):
    with pytest.raises(ValueError, match="need seconds above 0"):
        alone.barrier(timeout=timeout)
    with pytest.raises(ValueError, match="need seconds above 0"):
        alone.timeout = timeout


def test_a_communicator_must_be_one():
    with pytest.raises(TypeError, match="comm is of type str; pass a Communicator"):
        collalgo.allreduce(np.ones(1), "max")


def test_a_list_of_algorithms_that_has_changed_is_read_again():
    def on_each_rank(comm):
        names = ["ring"]
        comm.allreduce(np.ones(3), algorithm=names)
        names[0] = "rong"
        with pytest.raises(AlgorithmNotApplicable, match="no algorithm 'rong'"):
            comm.allreduce(np.ones(3), algorithm=names)

    threads(on_each_rank, 2)


@pytest.mark.parametrize("asked", ["rong", ["rong"]])
def test_an_error_in_a_call_has_nothing_to_do_with_what_was_looked_up(asked):
    def on_each_rank(comm):
        with pytest.raises(AlgorithmNotApplicable, match="no algorithm 'rong'") as told:
            comm.allreduce(np.ones(3), algorithm=asked)
        assert told.value.__context__ is None

    threads(on_each_rank, 2)
