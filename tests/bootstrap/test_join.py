"""The arguments of joining: who says the position of a rank, and how ranks meet."""

from dataclasses import FrozenInstanceError

import pytest

from collalgo.bootstrap.join import join
from collalgo.bootstrap.join_arguments import JoinArguments

RUN = {"COLLALGO_JOB": "x", "RANK": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
MPIEXEC = {"PMI_RANK": "1", "PMI_SIZE": "3"}


@pytest.fixture
def launched(monkeypatch):
    """Set the variables of a launcher, and no others."""

    def by(variables):
        for name in (*RUN, *MPIEXEC, "COLLALGO_STORE", "OMPI_COMM_WORLD_RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return by


@pytest.mark.parametrize(
    ("variables", "position", "over_mpi"),
    [(RUN, (2, 4), False), (MPIEXEC, (1, 3), True), ({}, (0, 1), False)],
)
def test_without_a_store_the_launcher_says_the_position(
    launched, variables, position, over_mpi
):
    launched(variables)
    arguments = JoinArguments()
    assert arguments.position == position
    assert arguments.over_mpi == over_mpi


def test_with_a_store_the_launcher_is_not_asked(launched):
    launched(MPIEXEC)
    arguments = JoinArguments("tcp://a:1", rank=0, size=2)
    assert arguments.launched is None
    assert arguments.position == (0, 2)
    assert not arguments.over_mpi


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ((None, 2), "needs rank and size too"),
        ((0, None), "needs rank and size too"),
        ((2, 2), "init: rank is 2, which is out of range"),
        ((-1, 2), "init: rank is -1, which is out of range"),
        ((0, 0), "init: size is 0, which is out of range"),
    ],
)
def test_a_position_that_cannot_be_is_refused(position, message):
    with pytest.raises(ValueError, match=message):
        _ = JoinArguments("tcp://a:1", *position).position


def test_arguments_do_not_change():
    with pytest.raises(FrozenInstanceError):
        JoinArguments().rank = 1


def test_a_process_alone_joins_a_world_of_one(launched):
    launched({})
    context = join(JoinArguments())
    try:
        assert (context.transport.rank, context.transport.size) == (0, 1)
    finally:
        context.release()
