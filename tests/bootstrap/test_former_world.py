"""Processes whose last world has all ranks of the next one."""

from unittest.mock import Mock

import pytest
from hypothesis import given, strategies as st

from collalgo.bootstrap.former_world import FormerWorld, former_ranks, introduced
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.multi_host import Job, MultiHostRendezvous

NAMES = st.text(min_size=1)


def found_by(texts, identity, former):
    """What a process learns of all, whose texts these are."""
    return introduced(Mock(**{"allgather.side_effect": texts}), identity, former)


def world(name, rank, lost=()):
    context = Mock(**{"transport.rank": rank, "rendezvous.lost.return_value": lost})
    return FormerWorld(name, context)


@pytest.mark.parametrize(
    ("lost", "ranks"), [((), (0, 2)), ((1,), (0, 2)), ((2,), ()), ((0, 1), ())]
)
def test_a_world_is_not_used_again_if_a_member_is_lost_to_another(lost, ranks):
    sent = []
    for process, former in (("x", world("1", 0, lost)), ("y", world("1", 2))):
        found_by(lambda text: sent.append(text) or [text], process, former)
    for process, former in (("x", world("1", 0, lost)), ("y", world("1", 2))):
        assert found_by(lambda _: sent, process, former) == (["x", "y"], ranks)
    assert found_by(lambda text: [text, *sent], "z", None) == (["z", "x", "y"], ())


def place(name, rank):
    return FormerWorld(name, Mock(**{"transport.rank": rank})).place


@given(NAMES, st.lists(st.integers(0, 5000), min_size=1))
def test_the_places_in_one_world_give_the_ranks_in_it(name, ranks):
    assert former_ranks([place(name, rank) for rank in ranks]) == tuple(ranks)


@given(st.lists(NAMES | st.just(""), min_size=2), st.data())
def test_places_in_several_worlds_or_in_none_give_no_ranks(names, data):
    if len(set(names)) == 1 and "" not in names:
        names[data.draw(st.integers(0, len(names) - 1))] = ""
    places = [name and place(name, rank) for rank, name in enumerate(names)]
    assert former_ranks(places) == ()


@pytest.mark.parametrize(
    ("store_rank", "members", "suffices"),
    [
        (0, (0, 1), True),
        (0, (1, 2), False),
        (1, (1, 2), False),  # ranks 3 and 5 of the job
        (3, (1, 2), True),
        (None, (2,), True),
    ],
)
def test_ranks_on_several_hosts_need_the_one_that_holds_their_store(
    store_rank, members, suffices
):
    membership = Membership(0, store_rank)
    job = Job("job", 0, (0, 0, 1, 1, 2, 2), membership, Mock(), Mock(), 9, "ucx")
    ranks = (0, 3, 5)
    assert MultiHostRendezvous(job, ranks).suffices(members) == suffices
