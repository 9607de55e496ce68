"""Errors of elastic calls name these, never the exchanges that they are made of."""

from types import SimpleNamespace

import numpy as np
import pytest

from collalgo import MismatchError, PeerFailed, threads
from collalgo.comm.communicator import Communicator
from collalgo.elastic import State, run, sum_shards


def commit(comm):
    @run
    def train(_comm, state):
        state.commit()

    train(State(step=0), comm=comm)


CALLS = {
    "sum_shards": lambda comm: sum_shards(comm, 8, lambda _: np.ones(3)),
    "sync": lambda comm: State(step=0).sync(comm),
    "verify": lambda comm: State(step=0).verify(comm),
}


def told(call, size=3):
    """What each rank is told where rank 1 makes a collective instead of a call."""

    def on_each_rank(comm):
        comm.barrier()
        with pytest.raises(MismatchError) as caught:
            comm.allreduce(np.ones(5)) if comm.rank == 1 else call(comm)
        return str(caught.value)

    return threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("name", CALLS)
def test_another_call_beside_an_elastic_one_is_told_by_its_name(name):
    for text in told(CALLS[name]):
        assert text.startswith("call #2: rank ")
        assert f"called {name}" in text
        assert "called allreduce" in text


def test_another_call_beside_a_commit_is_told_by_its_name(monkeypatch):
    """In a job whose members may change."""
    newcomers = SimpleNamespace(has_changed=lambda: False)
    monkeypatch.setattr(Communicator, "_newcomers", newcomers)

    def on_each_rank(comm):
        with pytest.raises(MismatchError) as caught:
            if comm.rank == 1:
                State(step=0).sync(comm)
                comm.barrier()
            else:
                commit(comm)
        return str(caught.value)

    for text in threads(on_each_rank, 3, timeout=60):
        assert "called commit" in text
        assert "called barrier" in text


def test_an_error_in_the_function_of_a_sum_shows_as_the_sum_elsewhere():
    def on_each_rank(comm):
        def of(number):
            if comm.rank == 1:
                raise KeyError(number)
            return np.ones(3)

        try:
            sum_shards(comm, 8, of)
        except KeyError:
            comm.abort("planted")
            return "its own"
        except PeerFailed as error:
            return str(error)

    found = threads(on_each_rank, 3, timeout=60)
    assert found[1] == "its own"
    for text in (found[0], found[2]):
        assert text.startswith("sum_shards #1: rank 1 is gone: planted")


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "other", [(8, np.ones(4)), (8, np.ones(3, "f4")), (9, np.ones(3))], ids=str
)
def test_sums_of_other_forms_are_refused_on_every_member(size, other):
    def on_each_rank(comm):
        shards, part = other if comm.rank == 1 else (8, np.ones(3))
        with pytest.raises(ValueError, match=r"rank \d passed \d shards of \(.,\) fl"):
            sum_shards(comm, shards, lambda _: part)
        return float(comm.allreduce(np.ones(1))[0])  # which has not failed

    assert threads(on_each_rank, size, timeout=60) == [size] * size


def test_a_sum_of_another_form_than_before_is_told_on_every_member():
    def on_each_rank(comm):
        sum_shards(comm, 8, lambda _: np.ones(3))
        with pytest.raises(MismatchError) as caught:
            sum_shards(comm, 8, lambda _: np.ones(4 if comm.rank == 1 else 3))
        return str(caught.value)

    for text in threads(on_each_rank, 3, timeout=60):
        assert "rank 1 called sum_shards of another form" in text
