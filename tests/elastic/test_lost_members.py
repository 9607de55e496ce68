"""Survivors report lost members to stores that only see the end of their leases."""

import json
from dataclasses import replace
from threading import enumerate as enumerate_threads
from unittest.mock import Mock

import pytest

from collalgo.bootstrap.rendezvous import GroupRendezvous
from collalgo.bootstrap.store.ended_members import remove_processes
from collalgo.bootstrap.store.job_keys import LEADER, NODES, ROUND
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.elastic import lost_members
from collalgo.elastic.lost_members import report_lost
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 17, 33]


def test_members_of_a_node_that_survivors_report_are_lost_at_once(node):
    """Not when their leases end; also if one of them leads."""
    nodes = [node(name, replace(QUICK, most=4, silence=60.0)) for name in "abcd"]
    members = all_join(*nodes)
    leader = next(each for each in nodes if each._state.leads)
    gone = [leader, next(each for each in nodes if each is not leader)]
    for each in gone:
        each._events.put(None)  # it hangs, but its connection and its lease remain
        each._thread.join(DEADLINE)
    others = [each for each in nodes if each not in gone]
    names = {each._state.member.name for each in gone}
    order = members[0].members
    ranks = {order.index(name) for name in names}
    remove_processes(others[0].store, members[0].epoch, ranks)
    until(lambda: all(e.change() and set(e.change().lost) == names for e in others))
    check_agree(all_join(*others))


def test_members_of_another_epoch_are_left_alone(node):
    nodes = [node(name) for name in "ab"]
    (first, _), _ = all_join(*nodes), all_join(*nodes)
    store = nodes[0].store
    before = store.entries(NODES), store.read(LEADER)
    remove_processes(store, first.epoch, {0, 1})
    assert (store.entries(NODES), store.read(LEADER)) == before


def test_a_member_that_lives_though_it_was_reported_takes_part_again(node):
    nodes = [node(name) for name in "ab"]
    member, _ = all_join(*nodes)
    remove_processes(nodes[0].store, member.epoch, {0, 1})
    until(lambda: all(each.change() for each in nodes))
    found = all_join(*nodes)
    check_agree(found)
    assert set(found[0].members) == {"a", "b"}


class Lost:
    """The world of a member of some rank that has lost others, and its store."""

    def __init__(self, rank, size, lost=(), document=None):
        members = [[f"n{number}", f"t{number}"] for number in range(size)]
        document = document or json.dumps({"epoch": 4, "members": members}).encode()
        self.store = Mock(sees_ends=False, **{"read.side_effect": self.read})
        self.member = Mock(epoch=4, rank=rank, size=size)
        self.context = Mock(has_left=False, **{"rendezvous.lost": lambda: self.lost})
        self.lost, self.document, self.looks, self.is_over = lost, document, 0, False

    def read(self, key):
        if key == ROUND:
            self.looks += 1
            return Mock(value=self.document)
        token = key.removeprefix(NODES) if key != LEADER else "t0"
        return Mock(value=json.dumps({"member": ["", token]}).encode(), version=7)

    def report(self):
        words = self.store, self.member, self.context, lambda: self.is_over
        report_lost(*words)

    def deleted(self):
        return [key for (key, version), _ in self.store.delete.call_args_list]


@pytest.fixture
def lost(monkeypatch):
    """Makes worlds of members; the reports end with the test."""
    made = []
    monkeypatch.setattr(lost_members, "PAUSE", 0.001)

    def make(*words, **named):
        made.append(Lost(*words, **named))
        return made[-1]

    yield make
    for each in made:
        each.is_over = True
    until(lambda: not [t for t in enumerate_threads() if "lost members" in t.name])


@pytest.mark.parametrize("document", [b"x", b"[]", b"{}", b'{"epoch": 4}', b"\xff"])
def test_a_malformed_round_is_no_error_of_a_report(lost, document):
    found = lost(1, 2, [0], document)
    found.report()
    until(lambda: found.looks)
    assert not found.deleted()


@pytest.mark.parametrize("size", SIZES[1:])
def test_the_first_survivor_alone_reports_the_lost(lost, size):
    gone = [rank for rank in range(size) if rank % 3 == 0][: size - 1]
    found = [lost(rank, size, gone) for rank in {*range(size)} - set(gone)]
    for each in found:
        each.report()
    until(lambda: len(found[0].deleted()) == 1 + len(gone))
    assert set(found[0].deleted()) == {LEADER, *(f"{NODES}t{rank}" for rank in gone)}
    assert not any(each.deleted() for each in found[1:])


def test_one_that_ends_later_is_reported_too(lost):
    """Also if that was the first survivor before."""
    found = lost(2, 4, [0])
    found.report()
    found.lost = [0, 1]
    until(lambda: f"{NODES}t1" in found.deleted())
    assert f"{NODES}t0" in found.deleted()


def test_a_report_is_repeated_until_the_store_has_a_leader_again(lost):
    found = lost(0, 2, [1])
    found.store.delete.side_effect = [StoreError("no leader"), StoreError("no"), True]
    found.report()
    until(lambda: len(found.deleted()) == 3)
    assert found.deleted() == [f"{NODES}t1"] * 3


def test_stores_that_see_the_end_of_a_process_are_asked_nothing(lost):
    found = lost(0, 2, [1])
    found.store.sees_ends = True
    found.report()
    assert not [t for t in enumerate_threads() if "lost members" in t.name]


@pytest.mark.parametrize(
    ("places", "lost"), [((0, 1, 2, 3), [1, 3]), ({4: 0, 7: 3, 9: 2}, [7])]
)
def test_ranks_whose_process_has_ended_are_lost(places, lost):
    memory = Mock(**{"ended.return_value": [1, 3]})
    assert GroupRendezvous(memory, "world", places, Mock()).lost() == lost
