"""Lanes and pipelines: how many there are, and how they are lowered."""

from itertools import chain, repeat, zip_longest

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import (
    AlgorithmNotApplicable,
    threads,
    verify,
)
from collalgo._kernels.engine.transport import transport
from collalgo.algorithms import linear
from collalgo.algorithms.catalogue import candidates
from collalgo.algorithms.row import one_lane
from collalgo.schedule import LANES, pipeline, recv, send, together
from tests.support.parameter_checks import examine, rows_with_parameters


def test_a_schedule_of_the_user_with_too_many_lanes_is_refused_on_every_rank():
    def broadcast(group):
        yield from together(*(linear.broadcast(part) for part in group.shares(9)))

    def on_each_rank(comm):
        with pytest.raises(AlgorithmNotApplicable, match="9 lanes between two ranks"):
            comm.broadcast(np.ones(9), algorithm=broadcast)
        return comm.allreduce(np.ones(1)).tolist()

    assert threads(on_each_rank, 3) == [[3.0]] * 3


def test_the_lanes_are_those_of_the_engine():
    assert transport.LANES == LANES


@pytest.mark.parametrize("size", [2, 3, 4, 8, 9, 16, 18, 25])
def test_no_algorithm_has_more_lanes_between_two_ranks_than_it_says(size):
    for row in rows_with_parameters():
        if row.lane_count is not one_lane and row.obstacle(size) is None:
            proof = verify(
                row.schedule, size=size, collective=row.collective, segments=1
            )
            assert proof.lanes <= row.lane_count(size, dict(row.parameters)), row.name


@pytest.mark.parametrize("size", [25, 30, 49])
def test_many_lanes_of_which_two_ranks_have_few_are_lowered(size):
    for row in candidates("broadcast"):
        if row.name == "striped_chains":
            assert examine(row, size, {}, size // 3)


@given(st.lists(st.integers(0, 5), max_size=9))
def test_a_pipeline_begins_each_schedule_a_step_after_the_one_before(lengths):
    def schedule(number, length):
        return iter([(send(number), recv(step)) for step in range(length)])

    delayed = (
        chain(repeat((), number), schedule(number, length))
        for number, length in enumerate(lengths)
    )
    expected = [
        tuple(
            transfer._replace(lane=number % 2)
            for number, step in enumerate(steps)
            for transfer in step
        )
        for steps in zip_longest(*delayed, fillvalue=())
    ]
    found = pipeline(*(schedule(*one) for one in enumerate(lengths)))
    assert list(found) == expected


def test_a_pipeline_of_many_segments_takes_time_in_proportion():
    asked_for = []

    def schedule():
        for _ in range(3):
            asked_for.append(1)
            yield ()
        asked_for.append(1)

    steps = list(pipeline(*(schedule() for _ in range(500))))
    assert (len(steps), len(asked_for)) == (502, 4 * 500)
