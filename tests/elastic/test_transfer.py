"""A state goes from the members that have it to the others."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from collalgo import Communicator, threads
from collalgo.elastic import State

pytestmark = pytest.mark.parallel

#: Of any lengths, so that parts end in them.
ARRAYS = [np.arange(n, dtype=np.uint8) for n in (0, 1, 100, 3, 0, 7)]

#: The bytes of these and of a number.
NBYTES = sum(map(len, ARRAYS)) + 8


@pytest.fixture
def sent(monkeypatch):
    """The bytes of messages from one rank to another."""
    found, isend = Counter(), Communicator.isend

    def counted(comm, piece, to, tag):
        found[comm.rank, to] += len(piece)
        return isend(comm, piece, to, tag)

    monkeypatch.setattr(Communicator, "isend", counted)
    return found


def join(comm, newcomers):
    """Synchronise with some members that are new."""
    is_new = comm.rank >= comm.size - newcomers
    state = State(arrays=[a * (not is_new) for a in ARRAYS], one=np.array(1.5))
    if not is_new:
        state.commit()
    state.sync(comm)
    assert [a.tolist() for a in state.arrays] == [a.tolist() for a in ARRAYS]
    assert (state.one, state.revision) == (1.5, 1)


@pytest.mark.parametrize("newcomers", [1, 2])
def test_all_who_have_a_state_send_a_part_of_it(newcomers, sent):
    threads(partial(join, newcomers=newcomers), 5)
    assert {source for source, _ in sent} == set(range(5 - newcomers))
    assert {to for _, to in sent} == set(range(5 - newcomers, 5))
    assert max(sent.values()) - min(sent.values()) <= 1
    assert sum(sent.values()) == NBYTES * newcomers


@pytest.mark.parametrize("newcomers", [3, 4])
def test_if_they_are_few_one_of_them_broadcasts_it(newcomers, sent):
    threads(partial(join, newcomers=newcomers), 5)
    assert not sent
