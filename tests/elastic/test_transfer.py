"""A state goes from the members that have it to the others."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from collalgo import threads
from collalgo.elastic import State, transfer
from collalgo.engine.call import Call

#: Of any lengths, so that parts end in them.
ARRAYS = [np.arange(n, dtype=np.uint8) for n in (0, 1, 100, 3, 0, 7)]

#: The bytes of these and of a number.
NBYTES = sum(map(len, ARRAYS)) + 8


@pytest.fixture
def sources(monkeypatch):
    """The bytes of arrays that each rank broadcasts, by all ranks' calls."""
    found = Counter()

    def counted(name, dtype, elements, *, root):
        found[root] += elements
        return Call(name, dtype, elements, root=root)

    monkeypatch.setattr(transfer, "Call", counted)
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


@pytest.mark.parametrize(("newcomers", "most"), [(1, 8), (2, 8), (4, 8), (1, 3)])
def test_those_who_have_a_state_broadcast_a_part_each(
    newcomers, most, sources, monkeypatch
):
    monkeypatch.setattr(transfer, "LEAST_PART", 4)
    monkeypatch.setattr(transfer, "MOST_SOURCES", most)
    threads(partial(join, newcomers=newcomers), 5)
    count = min(5 - newcomers, most)
    assert set(sources) == set(range(count))
    assert sum(sources.values()) > 5 * NBYTES
    parts = [sources[rank] for rank in range(1, count)]
    assert all(0 <= part - 5 * (NBYTES // count) <= 5 for part in parts)


def test_one_broadcasts_a_small_state(sources):
    threads(partial(join, newcomers=1), 5)
    assert set(sources) == {0}


def test_messages_of_the_user_are_left_alone(monkeypatch):
    monkeypatch.setattr(transfer, "LEAST_PART", 4)

    def receive_meanwhile(comm):
        word = np.zeros(1, np.uint8)
        work = comm.irecv(word, 0, 0) if comm.rank == 2 else None
        join(comm, 1)
        if comm.rank == 0:
            comm.send(np.full(1, 9, np.uint8), 2, 0)
        if work:
            work.wait(10)
            assert word.tolist() == [9]

    threads(receive_meanwhile, 3, timeout=20)
