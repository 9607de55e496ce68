"""reproducible="invariant": the same bits for any ranks, algorithms and orders."""

import ml_dtypes
import numpy as np
import pytest

from collalgo import ALGORITHMS, ExactSum, threads
from tests.support.exact_sums import exact_sums

MODE = {"reproducible": "invariant"}

#: The numbers of ranks, of which some take long to start.
RANKS = (1, 2, 3, 7, 16)
MORE_RANKS = (5, 8, 12, 17, 33)


def data(count, length, dtype, powers=30):
    """Numbers whose sum depends on the order in which they are added."""
    rng = np.random.default_rng(11)
    scales = 2.0 ** rng.uniform(-powers, powers, (count, length))
    with np.errstate(over="ignore", under="ignore"):
        return (rng.standard_normal((count, length)) * scales).astype(dtype)


def bits(array):
    return array.tobytes()


def result_and_expected(comm, row, mine, total):
    """The result of an algorithm, and the part of the sum that it must be."""
    chosen = {"algorithm": row.name, **MODE}
    if row.collective == "allreduce":
        return comm.allreduce(mine.copy(), **chosen), total
    if row.collective == "reduce":
        found = comm.reduce(mine.copy(), root=comm.size - 1, **chosen)
        return found, total if comm.rank == comm.size - 1 else None
    return comm.reduce_scatter(mine, **chosen), np.split(total, comm.size)[comm.rank]


@pytest.mark.parametrize(
    "size", [4, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 3, 5, 8))]
)
def test_all_algorithms_give_the_bits_of_the_exact_sum(size):
    inputs = data(size, 4 * size, np.float32)
    total = exact_sums(list(inputs))
    reducing = "allreduce", "reduce", "reduce_scatter"
    rows = [row for row in ALGORITHMS if row.collective in reducing]

    def on_each_rank(comm):
        for row in rows:
            if row.obstacle(size) is None:
                found = result_and_expected(comm, row, inputs[comm.rank], total)
                assert found[1] is None or bits(found[0]) == bits(found[1]), row

    threads(on_each_rank, size)


def forms_of_allreduce(comm, mine):
    """The results of all forms of an allreduce, by their names."""
    ring = {"algorithm": "ring", **MODE}
    yield "usual", comm.allreduce(mine.copy(), **MODE)
    yield "background", comm.allreduce_async(mine.copy(), **MODE).wait()
    yield "ring in the background", comm.allreduce_async(mine.copy(), **ring).wait()
    segmented = "two_shot(segments=3, lanes=2)"
    yield "segmented", comm.allreduce(mine.copy(), algorithm=segmented, **MODE)
    call = comm.persistent_allreduce(mine, out=np.empty_like(mine), **MODE)
    yield "persistent", call.start().wait()
    yield "persistent again", call.start().wait()
    reordered = comm.split(0, key=-comm.rank)
    yield "in another order", reordered.allreduce(mine.copy(), **MODE)
    for name, more in (("scattered", MODE), ("scattered by a ring", ring)):
        part = comm.reduce_scatter(mine, counts=[0, 7, 1, 16], **more)
        yield name, comm.allgatherv(part, counts=[0, 7, 1, 16])
    if mine.dtype.isbuiltin == 1:  # not bfloat16
        swapped = mine.astype(mine.dtype.newbyteorder())
        yield "swapped", comm.allreduce(swapped, **MODE).astype(mine.dtype)


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64]
)
def test_every_form_of_a_call_gives_the_same_bits(dtype):
    inputs = data(4, 24, dtype, 3)
    expected = bits(exact_sums(list(inputs)))

    def on_each_rank(comm):
        for name, found in forms_of_allreduce(comm, inputs[comm.rank]):
            assert bits(found) == expected, name

    threads(on_each_rank, 4)


@pytest.mark.parametrize(
    "sizes", [RANKS, pytest.param(MORE_RANKS, marks=pytest.mark.slow)]
)
def test_contributions_may_be_distributed_in_any_way(sizes):
    contributions = data(40, 20, np.float64, 200)
    contributions[:, 0] = -0.0
    contributions[3, 1:3] = np.inf, np.nan
    expected = bits(exact_sums(list(contributions)))

    def on_each_rank(comm):
        order = np.random.default_rng(comm.size).permutation(40)
        total = ExactSum(20, float)
        for number in order[comm.rank :: comm.size]:
            total.add(contributions[number])
        by_ring = total.allreduce(comm, algorithm="ring")
        assert bits(total.allreduce(comm)) == bits(by_ring)
        return bits(by_ring)

    for size in sizes:
        assert set(threads(on_each_rank, size)) == {expected}, size


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">c8", ">c16"])
def test_exact_sums_take_either_order_of_bytes(dtype):
    rng = np.random.default_rng(3)
    parts = rng.standard_normal((6, 5)) + 1j * rng.standard_normal((6, 5))
    contributions = (parts if "c" in dtype else parts.real).astype(dtype)

    def on_each_rank(comm, dtype):
        total = ExactSum(5, dtype)
        for each in contributions[comm.rank :: comm.size]:
            total.add(each)
        assert comm.size > 1 or bits(total.value()) == bits(total.allreduce(comm))
        return total.dtype, bits(total.allreduce(comm))

    native = np.dtype(dtype).newbyteorder("=")
    expected = set(threads(lambda comm: on_each_rank(comm, native), 1))
    for size in (1, 2, 3):
        assert set(threads(lambda comm: on_each_rank(comm, dtype), size)) == expected
    assert expected.pop()[1] == bits(exact_sums(list(contributions.astype(native))))


def test_a_sum_of_nothing_is_zero():
    def on_each_rank(comm):
        mine = ExactSum((2, 2), np.float32)
        nothing = mine.allreduce(comm)
        if comm.rank:
            mine.add([[0.1, 0.1], [0.1, 0.1]])
        return nothing.tolist() + mine.allreduce(comm).astype("f4").tolist()

    tenth = float(np.float32(0.1))
    expected = [[0.0, 0.0]] * 2 + [[tenth, tenth]] * 2
    assert threads(on_each_rank, 2) == [expected] * 2


def test_ranks_without_a_contribution_pass_zeros():
    contributions = data(7, 9, ml_dtypes.bfloat16, 40)
    expected = bits(exact_sums(list(contributions)))

    def on_each_rank(comm):
        mine = np.zeros(9, ml_dtypes.bfloat16)
        if comm.rank % 2 and comm.rank < 14:
            mine[:] = contributions[comm.rank // 2]
        return bits(comm.allreduce(mine, **MODE))

    for size in (14, 16):
        assert set(threads(on_each_rank, size)) == {expected}


def test_a_mean_is_the_exact_sum_divided():
    inputs = data(3, 50, np.float32)
    expected = exact_sums(list(inputs)) / np.float32(3)

    def on_each_rank(comm):
        for algorithm in (None, "ring"):
            found = comm.allreduce(
                inputs[comm.rank].copy(),
                "avg",
                algorithm=algorithm,
                **MODE,
            )
            assert bits(found) == bits(expected)

    threads(on_each_rank, 3)


def test_extremes_have_one_zero_and_one_nan():
    values = [[0.0, -0.0, 1.0], [-0.0, np.nan, -2.0], [-0.0, -np.nan, 3.0]]

    def on_each_rank(comm):
        found = []
        for order in (comm.rank, 2 - comm.rank, (comm.rank + 1) % 3):
            x = np.array(values[order])
            least = comm.allreduce(x.copy(), "min", **MODE)
            most = comm.allreduce(x.copy(), "max", **MODE)
            found.append(bits(least) + bits(most))
        return found

    expected = bits(np.array([0.0, np.nan, -2.0, 0.0, np.nan, 3.0]))
    assert threads(on_each_rank, 3) == [[expected] * 3] * 3


def test_what_is_never_rounded_runs_as_usual():
    def on_each_rank(comm):
        x = np.array([3, -4]) + comm.rank
        found = [
            comm.allreduce(x.copy(), op, algorithm="ring", **MODE)
            for op in ("sum", "prod", "avg", "min", "bxor")
        ]
        return np.concatenate(found).tolist()

    assert threads(on_each_rank, 2) == [[7, -7, 12, 12, 3, -4, 3, -4, 7, 1]] * 2


def test_what_cannot_be_invariant_is_refused():
    def on_each_rank(comm):
        x = np.ones(4)
        with pytest.raises(TypeError, match="no op 'prod' of float64, only sums"):
            comm.allreduce(x, "prod", **MODE)
        with pytest.raises(TypeError, match="no op 'hypot'"):
            comm.allreduce(x, np.hypot, **MODE)
        with pytest.raises(TypeError, match=r"of (longdouble|float128)"):
            comm.reduce(x.astype(np.longdouble), **MODE)
        with pytest.raises(ValueError, match="pass True, False or 'invariant'"):
            comm.allreduce(x, reproducible="order")
        with pytest.raises(TypeError, match="reproducible"):
            comm.scan(x, **MODE)
        with pytest.raises(ValueError, match=r"the array has the shape \(4,\)"):
            ExactSum((2, 2), float).add(x)

    threads(on_each_rank, 2)
    with pytest.raises(TypeError, match="sums of int64 are exact anyway"):
        ExactSum(3, int)
