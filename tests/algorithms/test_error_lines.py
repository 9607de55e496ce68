"""The proof names the first wrong step, with the line that yields it."""

import inspect

import numpy as np
import pytest

import collalgo
from collalgo import (
    ScheduleError,
    recv,
    recv_reduce,
    send,
    verify,
)


def lines_of(function, word):
    """The lines of a function's file that hold a word, within the function."""
    lines, first = inspect.getsourcelines(function)
    return [first + i for i, line in enumerate(lines) if word in line]


def forgets_to_reduce(group):
    for step in range(1, group.size):
        take = recv_reduce
        if step == 2 and group.rank == 1:
            take = recv
        yield (  # here
            send(group.right, group.chunk(group.rank - step)),
            take(group.left, group.chunk(group.rank - step - 1)),
        )
    yield from ring_allgather(group)


def sends_once_more(group):
    for step in range(1, group.size):
        if step == 2 and group.rank == 1:
            yield send(group.right, group.chunk(group.rank))
        yield (  # here
            send(group.right, group.chunk(group.rank - step)),
            recv_reduce(group.left, group.chunk(group.rank - step - 1)),
        )
    yield from ring_allgather(group)


def takes_another_chunk(group):
    for step in range(1, group.size):
        other = int(step == 2 and group.rank == 2)
        yield (  # here
            send(group.right, group.chunk(group.rank - step)),
            recv_reduce(group.left, group.chunk(group.rank - step - 1 - other)),
        )
    yield from ring_allgather(group)


def ring_allgather(group):
    for step in range(group.size - 1):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv(group.left, group.chunk(group.rank - step - 1)),
        )


@pytest.mark.parametrize("size", [4, 5, 7, 8, 12, 16, 17, 33])
@pytest.mark.parametrize(
    ("schedule", "rank"),
    [(forgets_to_reduce, 1), (sends_once_more, 2), (takes_another_chunk, 2)],
)
def test_the_first_wrong_step_is_named_with_the_line_that_yields_it(
    schedule, rank, size
):
    with pytest.raises(ScheduleError) as found:
        verify(schedule, size=size, collective="allreduce")
    assert found.value.fault == (rank, 1)
    (line,) = lines_of(schedule, "# here")
    where = f"(step 1 of rank {rank} is yielded at {__file__}:"
    assert where in str(found.value)
    number = int(str(found.value).split(where)[1].split(")")[0])
    assert line <= number <= line + 3


def fails_on_its_own(group):
    yield from ring_allgather(group)
    yield send(group.right, group.chunk(group.owner))  # here


def fails_in_the_library(group):
    yield send(group.right, group.subset(7).whole)  # here


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        (fails_on_its_own, "AttributeError: 'Group' object has no attribute 'owner'"),
        (fails_in_the_library, "TypeError: "),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_schedule_that_raises_is_named_with_its_line(schedule, error, size):
    (line,) = lines_of(schedule, "# here")
    with pytest.raises(ScheduleError) as found:
        verify(schedule, size=size, collective="allgather")
    text = str(found.value)
    assert text.startswith(f"{schedule.__name__}: rank 0 of {size} raises {error}")
    assert text.endswith(f"(at {__file__}:{line})")


def yields_no_transfer(group):
    yield group.chunk(0)  # here


def passes_no_chunk(group):
    yield send(group.right, group.chunks)  # here


def passes_no_position(group):
    yield send(group.peer("right"), group.chunk(0))  # here


@pytest.mark.parametrize(
    "schedule", [yields_no_transfer, passes_no_chunk, passes_no_position]
)
def test_what_is_not_a_step_is_named_with_its_line(schedule):
    (line,) = lines_of(schedule, "# here")
    with pytest.raises(ScheduleError) as found:
        verify(schedule, size=3, collective="allgather")
    text = str(found.value)
    assert text.startswith(f"{schedule.__name__}: rank 0 of 3: ")
    assert text.endswith(f"(at {__file__}:{line})")


@pytest.mark.parametrize(
    "schedule", [forgets_to_reduce, passes_no_chunk, fails_on_its_own]
)
def test_a_call_names_the_algorithm_and_its_line(schedule):
    (line,) = lines_of(schedule, "# here")

    def job(comm):
        comm.allreduce(np.ones(12), algorithm=schedule)

    with pytest.raises(ScheduleError) as found:
        collalgo.threads(job, 4)
    text = str(found.value)
    assert text.startswith(f"{schedule.__name__}: ")
    number = int(text.split(f"at {__file__}:")[1].split(")", maxsplit=1)[0])
    assert line <= number <= line + 3
