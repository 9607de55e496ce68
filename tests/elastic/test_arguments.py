"""Arguments of elastic calls that are refused, before anything is sent."""

import numpy as np
import pytest

from collalgo import elastic, threads
from collalgo.elastic import Sampler, State, sum_shards


def test_what_is_not_a_state_or_a_communicator_is_refused_before_connecting():
    train = elastic.run(lambda comm, _state: comm.size)
    with pytest.raises(TypeError, match=r"elastic.run: state is 3, of type int; pass"):
        train(3)
    with pytest.raises(TypeError, match=r"elastic.run: comm is 3, of type int; pass"):
        train(State(), comm=3)


@pytest.mark.parametrize("call", ["sync", "verify"])
def test_what_is_no_communicator_is_refused(call):
    with pytest.raises(TypeError, match=f"{call}: comm is None, of type NoneType; pas"):
        getattr(State(), call)(None)


def test_a_sum_without_a_communicator_or_a_function_is_refused():
    with pytest.raises(TypeError, match="sum_shards: comm is None, of type NoneType"):
        sum_shards(None, 5, np.ones)
    with pytest.raises(TypeError, match="sum_shards: of is 3, of type int; pass a fun"):
        threads(lambda comm: sum_shards(comm, 5, 3), 1)


@pytest.mark.parametrize("name", ["revision", "commit", "_own"])
def test_a_name_that_the_class_has_is_refused(name):
    with pytest.raises(ValueError, match=f"name {name!r} is .* choose another name"):
        State(**{name: 3})


@pytest.mark.parametrize("seed", ["a", 1.5, -1])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(
        (TypeError, ValueError), match="Sampler: seed is .*; pass an in"
    ):
        Sampler(4, seed=seed)


def test_a_seed_may_be_of_any_length_and_of_any_type_of_integers():
    seeds = 2**100, np.int64(3), True
    assert all(len(Sampler(4, seed=each).take(9)) == 4 for each in seeds)
    taken = Sampler(4, seed=np.int64(3))
    State(sampler=taken)  # which copies it as a number


def test_no_samples_are_refused_by_the_name_of_the_parameter():
    for keyword in ({"n": 0}, {}):
        args = () if keyword else (0,)
        with pytest.raises(ValueError, match="take: n is 0, which is out of range"):
            Sampler(4).take(*args, **keyword)
