"""reproducible=True: the bits of the sum in the order of the ranks."""

from functools import reduce

import ml_dtypes
import numpy as np
import pytest

from collalgo import ALGORITHMS, AlgorithmNotApplicable, threads
from collalgo.algorithms import ring

SERIAL = [row for row in ALGORITHMS if row.keeps_rank_order]


def data(size, count, dtype):
    """Numbers whose sum depends on the order in which they are added."""
    rng = np.random.default_rng(7)
    scales = 10.0 ** rng.integers(-3, 4, (size, count))
    return (rng.standard_normal((size, count)) * scales).astype(dtype)


def serial(inputs):
    """The sum in the order of the ranks; short floats are added up as float32."""
    wide = inputs if inputs.dtype.itemsize >= 4 else inputs.astype(np.float32)
    return reduce(np.add, wide).astype(inputs.dtype)


def bits(array):
    return array.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", range(2, 10))
def test_every_algorithm_that_claims_it_gives_the_bits_of_the_serial_sum(size, dtype):
    inputs = data(size, 501, dtype)
    expected = serial(inputs)

    def on_each_rank(comm):
        mine = inputs[comm.rank]
        for row in SERIAL:
            call = getattr(comm, row.collective)
            keep = (
                {"out": np.empty_like(mine)}
                if row.collective != "reduce_scatter"
                else {}
            )
            found = call(mine, **keep, algorithm=row.name, reproducible=True)
            if row.collective == "reduce_scatter":
                wanted = np.array_split(expected, size)[comm.rank]
                assert bits(found) == bits(wanted), row
            elif found is not None:
                assert bits(found) == bits(expected), row

    threads(on_each_rank, size)


@pytest.mark.parametrize("count", [1, 7, 1000, 300_001])
@pytest.mark.parametrize("size", [3, 8])
def test_the_bits_do_not_depend_on_the_number_of_elements(size, count):
    """Of long vectors another algorithm is chosen, with the same bits."""
    inputs = data(size, count, np.float32)
    expected = bits(serial(inputs))

    def on_each_rank(comm):
        found = comm.allreduce(inputs[comm.rank].copy(), reproducible=True)
        assert bits(found) == expected
        segmented = comm.allreduce(
            inputs[comm.rank].copy(),
            algorithm="two_shot(segments=3, lanes=2)",
            reproducible=True,
        )
        assert bits(segmented) == expected

    threads(on_each_rank, size)


def test_other_algorithms_give_other_bits():
    inputs = data(8, 1000, np.float32)

    def on_each_rank(comm):
        return bits(comm.allreduce(inputs[comm.rank].copy(), algorithm="ring"))

    assert threads(on_each_rank, 8)[0] != bits(serial(inputs))


def test_what_cannot_be_reproducible_is_refused():
    def mine(group):
        yield from ring.allreduce(group)

    def on_each_rank(comm):
        x = np.ones(4, np.float32)
        with pytest.raises(AlgorithmNotApplicable, match="ring does not combine in"):
            comm.allreduce(x, algorithm="ring", reproducible=True)
        with pytest.raises(AlgorithmNotApplicable, match="the order in which"):
            comm.allreduce(x, algorithm=mine, reproducible=True)
        comm.allreduce(x, algorithm=["ring", "two_shot"], reproducible=True)
        assert not any(
            row.keeps_rank_order
            for row in ALGORITHMS
            if row.collective == "allreduce" and row.name == "ring"
        )

    threads(on_each_rank, 2)
