"""Communicators for the tests of calls."""

import pytest

import collalgo


@pytest.fixture
def alone():
    with collalgo.comm.communicator.Communicator(
        collalgo.bootstrap.threads.ThreadRendezvous().connect("", 0, [0])
    ) as comm:
        yield comm
