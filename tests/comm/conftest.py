"""Communicators for the tests of calls."""

import pytest

from collalgo.bootstrap.threads import ThreadRendezvous
from collalgo.comm.communicator import Communicator


@pytest.fixture
def alone():
    with Communicator(ThreadRendezvous().connect("", 0, [0])) as comm:
        yield comm
