"""What a rank may let others read or write where it is."""

import numpy as np
import pytest

from collalgo import ALGORITHMS, threads
from collalgo.comm.current import runner_of
from collalgo.engine.plan.layout import Region
from collalgo.engine.plan.lowering import Averaging, Lowering
from collalgo.engine.plan.template import grid_of
from collalgo.engine.plan.zero_copy import DirectBuffers
from collalgo.schedule import recv, recv_reduce, send, trace


def marks(schedule, size, averaging=Averaging.NO, shared=True, sent=True):
    """The marks of what rank 0 sends, or receives, of a block for each rank."""
    steps = trace(schedule, 0, size)
    grid = grid_of(steps, size)
    whole = Region([grid.whole])
    plan = Lowering(grid, 0, size, whole, whole).lower(steps, averaging, shared)
    columns = (0, 1) if sent else (1, 2)
    chosen = [n for first, end in plan.steps[:, columns] for n in range(first, end)]
    return [DirectBuffers(mark) for mark in plan.direct[chosen]]


def named(name, collective="allreduce"):
    return next(
        row.schedule
        for row in ALGORITHMS
        if (row.collective, row.name) == (collective, name)
    )


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("averaging", [Averaging.NO, Averaging.BEFORE_SHARING])
def test_what_comes_back_and_results_are_lent(size, averaging):
    found = marks(named("two_shot"), size, averaging=averaging)
    # A part to each other, one result to all.
    assert found == [*(size - 1) * [DirectBuffers.RETURNED], DirectBuffers.ALWAYS]


def test_what_several_read_is_lent_only_if_the_result_is_elsewhere():
    assert marks(named("one_shot"), 3) == [DirectBuffers.APART]


def test_a_result_that_need_not_contain_what_was_given_does_not_tell_that_it_was_read():
    found = marks(named("two_shot"), 3, shared=False)
    assert found == [DirectBuffers.APART, DirectBuffers.APART, DirectBuffers.ALWAYS]


def test_what_is_read_again_is_not_known_to_have_been_read():
    def one_after_the_other(group):
        """Each hands over its vector, and sums when that has left."""
        yield (send(group.peer(1), group.whole),)
        yield (recv_reduce(group.peer(1), group.whole),)

    assert marks(one_after_the_other, 2) == [DirectBuffers.APART]


def test_what_is_written_over_before_the_result_comes_is_not_known_to_have_been_read():
    def by_way_of_a_partial_result(group):
        """Rank 0 hands on what rank 1 brings, which need not have its own part."""
        yield (send(group.peer(1), group.whole),)
        yield (recv(group.peer(1), group.whole),)
        yield (send(group.peer(1), group.whole),)
        yield (recv(group.peer(1), group.whole),)

    found = marks(by_way_of_a_partial_result, 2)
    assert found == [DirectBuffers.APART, DirectBuffers.NO]


def test_partial_results_that_are_passed_on_are_not_lent():
    found = marks(named("recursive_doubling"), 4)
    assert found[0] is DirectBuffers.APART
    assert (
        found[1] is DirectBuffers.NO
    )  # it is overwritten in the step in which it is sent


@pytest.mark.parametrize("size", [2, 3, 8])
def test_the_reader_of_what_it_gives_back_may_write_it_where_it_belongs(size):
    found = marks(named("two_shot"), size, sent=False)
    assert found == [DirectBuffers.NO, *(size - 1) * [DirectBuffers.RETURNED]]


def test_others_may_write_the_result_only_if_it_has_memory_of_its_own():
    _, _, _, *found = marks(named("ring"), 4, sent=False)
    # The left one brings it, and the right one was given it. All else has been partial.
    assert found == [DirectBuffers.APART, DirectBuffers.NO, DirectBuffers.NO]


def test_what_nobody_reads_may_be_written_at_any_time():
    found = marks(named("direct", "allgather"), 4, shared=False, sent=False)
    assert found == 3 * [DirectBuffers.ALWAYS]


def test_what_is_written_twice_comes_in_messages():
    found = marks(named("recursive_doubling"), 4, sent=False)
    assert set(found) == {DirectBuffers.NO}
    divided = marks(
        named("direct", "allgather"), 4, Averaging.AT_THE_END, False, sent=False
    )
    assert set(divided) == {DirectBuffers.NO}


def test_of_the_messages_of_a_channel_one_is_offered():
    """An offer that was replaced could be taken for the other, half read."""

    def run(comm):
        comm.broadcast(np.ones(1 << 18), algorithm="striped_chains")
        recorder = runner_of(comm).recorder
        program = recorder.program(recorder.count)
        received = [
            m
            for _, first, end in program.plan.steps.tolist()
            for m in range(first, end)
        ]
        used = program.plan.channels[program.plan.messages[received, 2]].tolist()
        return len(received), len(set(used)), program.offers_end

    assert threads(run, 2) == [(0, 0, 0), (8, 4, 4)]


def test_long_messages_are_offered():
    def run(comm):
        offers = []
        for count in (1 << 10, 1 << 16):
            comm.allreduce(np.ones(count), algorithm="two_shot")
            recorder = runner_of(comm).recorder
            offers.append(recorder.program(recorder.count).offers_end)
        return offers

    assert threads(run, 3) == 3 * [[0, 2]]
