"""What a rank may let others read where it is."""

import pytest

from collalgo import ALGORITHMS
from collalgo.layout import Layout, Region
from collalgo.lending import Lendable
from collalgo.plan import Averaging, Walk
from collalgo.schedule import recv, recv_reduce, send, trace

pytestmark = pytest.mark.parallel


def marks(schedule, size, rank=0, averaging=Averaging.NO, shared=True):
    """The marks of what a rank sends, of a buffer with a block for each rank."""
    layout = Layout(64 * size, 8, size)
    whole = Region([layout.whole])
    plan = Walk(layout, rank, size, whole, whole).lower(
        trace(schedule, rank, size), averaging, shared
    )
    sent = [n for first, end, _ in plan.steps for n in range(first, end)]
    return [Lendable(mark) for mark in plan.lendable[sent]]


def named(name):
    return next(
        row.schedule
        for row in ALGORITHMS
        if (row.collective, row.name) == ("allreduce", name)
    )


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("averaging", [Averaging.NO, Averaging.BEFORE_SHARING])
def test_what_comes_back_and_results_are_lent(size, averaging):
    found = marks(named("two_shot"), size, averaging=averaging)
    assert found == [Lendable.ALWAYS] * size  # a part to each other, one result to all


def test_what_several_read_is_lent_only_if_the_result_is_elsewhere():
    assert marks(named("one_shot"), 3) == [Lendable.APART]


def test_a_result_that_need_not_contain_what_was_given_does_not_tell_that_it_was_read():
    found = marks(named("two_shot"), 3, shared=False)
    assert found == [Lendable.APART, Lendable.APART, Lendable.ALWAYS]


def test_what_is_read_again_is_not_known_to_have_been_read():
    def one_after_the_other(group):
        """Each hands over its vector, and sums when that has left."""
        yield (send(group.peer(1), group.whole),)
        yield (recv_reduce(group.peer(1), group.whole),)

    assert marks(one_after_the_other, 2) == [Lendable.APART]


def test_what_is_written_over_before_the_result_comes_is_not_known_to_have_been_read():
    def by_way_of_a_partial_result(group):
        """Rank 0 hands on what rank 1 brings, which need not have its own part."""
        yield (send(group.peer(1), group.whole),)
        yield (recv(group.peer(1), group.whole),)
        yield (send(group.peer(1), group.whole),)
        yield (recv(group.peer(1), group.whole),)

    found = marks(by_way_of_a_partial_result, 2)
    assert found == [Lendable.APART, Lendable.NO]


def test_partial_results_that_are_passed_on_are_not_lent():
    found = marks(named("recursive_doubling"), 4)
    assert found[0] is Lendable.APART
    assert found[1] is Lendable.NO  # it is overwritten in the step in which it is sent
