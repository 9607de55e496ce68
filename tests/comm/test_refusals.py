"""Refusals: at once, in the words of the call, by the rank that has caused them."""

import numpy as np
import pytest

import collalgo
from collalgo import AlgorithmNotApplicable, threads


def test_more_threads_than_ranks_of_a_host_are_refused_at_once():
    for size in (0, 4097, 10**6):
        with pytest.raises(ValueError, match=r"threads: size is .* from 1 to 4096"):
            threads(print, size)


@pytest.mark.parametrize("wrong", [{0: 3, 1: 3}, {3, 4}])
def test_counts_without_an_order_of_ranks_are_refused(wrong):
    def on_each_rank(comm):
        for call in (comm.allgatherv, comm.gatherv, comm.scatterv, comm.alltoallv):
            with pytest.raises(TypeError, match=r"counts? is .*; pass"):
                call(np.zeros(6), wrong)

    threads(on_each_rank, 2)


def test_words_of_refusals_are_those_of_the_call():
    times = np.zeros(3, "M8[s]")
    with pytest.raises(TypeError, match=r"op 'avg' is not defined for datetime64"):
        threads(lambda comm: comm.allreduce(times, op="avg"), 1)
    for name in ("ring(segments=1,segments=2)", "ring(order=(0,), order=(0,))"):
        with pytest.raises(AlgorithmNotApplicable, match="each parameter once"):
            collalgo.verify(name, size=2, collective="allreduce")


def test_the_error_of_the_rank_that_has_caused_it_is_raised():
    class Unpicklable:
        def __reduce__(self):
            raise KeyError("own")

    def op(first, second):
        raise KeyError("own")

    for root in range(3):
        with pytest.raises(ValueError, match="got 2 objects for 3 ranks"):
            threads(lambda comm, root=root: comm.scatter_objects([1, 2], root), 3)
        with pytest.raises(KeyError, match="own"):
            threads(
                lambda comm, root=root: comm.broadcast_object(Unpicklable(), root=root),
                3,
            )
    with pytest.raises(KeyError, match="own"):
        threads(lambda comm: comm.reduce(np.full(2, comm.rank), op, root=1), 3)
