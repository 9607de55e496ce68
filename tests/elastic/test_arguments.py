"""Arguments of elastic calls that are refused, before anything is sent."""

from collections import namedtuple

import numpy as np
import pytest

from collalgo import MismatchError, elastic, threads
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
        (TypeError, ValueError), match=r"Sampler: seed is .*; pass an in"
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


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("a", "'a', of type str"),
        (np.full(2, b"a"), r"an array of dtype \|S1"),
        (np.array([1, None]), "an array of dtype object"),
        (np.zeros(2, [("a", "f4")]), r"an array of dtype \[\('a', .*\]"),
        (np.zeros(2, "M8[s]"), r"an array of dtype datetime64\[s\]"),
        (np.zeros(2, "V3"), r"an array of dtype \|V3"),
        (None, "None, of type NoneType"),
        ({"loss": 1.5}, r"{'loss': 1.5}, of type dict"),
        ([[1, 2], [3]], r"\[\[1, 2\], \[3\]\], of type list"),
    ],
)
@pytest.mark.parametrize("is_in_a_list", [False, True])
def test_contributions_that_cannot_be_added_are_refused(part, name, is_in_a_list):
    is_several = is_in_a_list or isinstance(part, list)
    what = [np.ones(2), part] if is_several else part
    where = "a list with " if is_several else ""
    text = f"sum_shards: of returned {where}{name}, which .* return an array"
    for size in (1, 3):
        with pytest.raises(TypeError, match=text):
            threads(lambda comm: sum_shards(comm, 5, lambda _: what), size)


def test_a_named_tuple_is_summed_as_one():
    pair = namedtuple("pair", "loss count")
    (found,) = threads(lambda c: sum_shards(c, 4, lambda k: pair(1.5, k)), 1)
    assert found == pair(6, 6)


@pytest.mark.parametrize("is_first", [True, False])
def test_members_that_differ_raise_the_same_error_with_both(is_first):
    forms = {0: (5, "f8"), 1: (5, "f8"), 2: (6, "f8"), 3: (5, "f4")}

    def on_each_rank(comm):
        if not is_first:
            sum_shards(comm, 4, lambda _: np.ones(2))
        shards, dtype = forms[comm.rank]
        with pytest.raises(MismatchError) as caught:
            sum_shards(comm, shards, lambda _: np.ones(3, dtype))
        assert isinstance(caught.value, ValueError)  # as it was documented
        assert sum_shards(comm, 5, lambda _: np.ones(3))[0] == 5
        return str(caught.value)

    (text,) = set(threads(on_each_rank, 4))
    assert text.startswith(
        "sum_shards: rank 0 passed 5 shards of (3,) float64, but rank 2 passed 6 "
        "shards of (3,) float64; "
    )


def test_an_error_of_many_arrays_shows_those_that_differ():
    def on_each_rank(comm):
        last = np.ones(3 + comm.rank)
        sum_shards(comm, 4, lambda _: [np.ones(2)] * 99 + [last])

    with pytest.raises(
        MismatchError, match=r"\(3,\) float64, but .* \(4,\) "
    ) as caught:
        threads(on_each_rank, 2)
    assert len(str(caught.value)) < 600
