"""Survivors report lost members to stores that only see the end of their leases."""

import json
from dataclasses import replace
from threading import Event, enumerate as enumerate_threads
from unittest.mock import Mock

import pytest

from collalgo.bootstrap.rendezvous import GroupRendezvous
from collalgo.bootstrap.store.ended_members import remove_processes
from collalgo.bootstrap.store.job_keys import LEADER, NODES
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.elastic import lost_members
from collalgo.elastic.documents import Node, encoded
from collalgo.elastic.lost_members import report_lost
from collalgo.elastic.schema import Member
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

SIZES = [2, 3, 5, 7, 8, 12, 16, 17, 33]


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
    tokens = {members[0].tokens[order.index(name)] for name in names}
    remove_processes(others[0].store, tokens)
    until(lambda: all(e.change() and set(e.change().lost) == names for e in others))
    check_agree(all_join(*others))


def test_other_processes_of_a_lost_member_and_another_leader_are_left_alone(node):
    nodes = [node(name, replace(QUICK, most=2)) for name in "ab"]
    members, store = all_join(*nodes)[0], nodes[0].store
    lost = next(each._state.member for each in nodes if not each._state.leads)
    again = NODES + "of another process"
    store.set(again, encoded(Node(Member(lost.name, "of another process"), 0)))
    others, leader = (
        store.entries(NODES).keys() - {NODES + lost.token},
        store.read(LEADER),
    )
    remove_processes(store, [lost.token])
    assert again in others
    assert len(others) == members.size
    assert store.entries(NODES).keys() >= others
    assert store.read(LEADER) == leader


def test_a_member_that_lives_though_it_was_reported_takes_part_again(node):
    nodes = [node(name) for name in "ab"]
    member, _ = all_join(*nodes)
    remove_processes(nodes[0].store, member.tokens)
    until(lambda: all(each.change() for each in nodes))
    found = all_join(*nodes)
    check_agree(found)
    assert set(found[0].members) == {"a", "b"}


def test_a_member_lost_after_the_next_round_is_reported_by_those_that_connect(node):
    """The survivors hold the membership of the epoch before until all connect."""
    nodes = [node(name, replace(QUICK, silence=60.0)) for name in "abc"]
    before = all_join(*nodes)
    check_agree(all_join(*nodes))
    last = before[0].members.index("c")
    store, is_over = Mock(wraps=nodes[0].store, sees_ends=False), Event()
    nodes[2]._events.put(None)  # it hangs, but its connection and its lease remain
    nodes[2]._thread.join(DEADLINE)
    context = Mock(has_left=False, **{"rendezvous.lost.return_value": [last]})
    for member in before[:2]:  # one of them is the first survivor
        report_lost(store, member, context, is_over.is_set)
    try:
        until(lambda: all(e.change() and e.change().lost == ("c",) for e in nodes[:2]))
    finally:
        is_over.set()
    check_agree(all_join(*nodes[:2]))


class Survivor:
    """A member of some rank that has lost others: its world, and its store."""

    def __init__(self, rank, size, lost=(), leader=None):
        tokens = tuple(f"t{number}" for number in range(size))
        self.store = Mock(sees_ends=False)
        self.leader = leader or json.dumps({"member": ["", "t0"]}).encode()
        self.store.read.side_effect = lambda _: Mock(value=self.leader, version=7)
        self.member = Mock(rank=rank, size=size, tokens=tokens)
        self.context = Mock(has_left=False, **{"rendezvous.lost": self.look})
        self.lost, self.looks, self.is_over = lost, 0, False

    def look(self):
        self.looks += 1
        return self.lost

    def report(self):
        words = self.store, self.member, self.context, lambda: self.is_over
        report_lost(*words)

    def deleted(self):
        return [words[0] for words, _ in self.store.delete.call_args_list]


@pytest.fixture
def lost(monkeypatch):
    """Makes worlds of members; the reports end with the test."""
    made = []
    monkeypatch.setattr(lost_members, "PAUSE", 0.001)

    def make(*words, **named):
        made.append(Survivor(*words, **named))
        return made[-1]

    yield make
    for each in made:
        each.is_over = True
    until(lambda: not [t for t in enumerate_threads() if "lost members" in t.name])


@pytest.mark.parametrize("leader", [b"x", b"[]", b"{}", b'{"member": 4}', b"\xff"])
def test_a_malformed_leader_keeps_no_lost_member(lost, leader):
    found = lost(1, 3, [0, 2], leader)
    found.report()
    until(lambda: found.looks > 2)
    assert set(found.deleted()) == {f"{NODES}t0", f"{NODES}t2"}
    assert len(found.deleted()) == 2  # once each


def test_a_rendezvous_without_tokens_of_its_members_is_told_nothing(lost):
    found = lost(0, 2, [1])
    found.member.tokens = ()
    del found.store.sees_ends  # as of a plug-in
    found.report()
    assert not [t for t in enumerate_threads() if "lost members" in t.name]


@pytest.mark.parametrize("size", SIZES)
def test_the_first_survivor_alone_reports_the_lost(lost, size):
    gone = [rank for rank in range(size) if rank % 3 == 0][: size - 1]
    found = [lost(rank, size, gone) for rank in {*range(size)} - set(gone)]
    for each in found:
        each.report()
    until(lambda: all(each.looks > 2 for each in found))
    assert set(found[0].deleted()) == {LEADER, *(f"{NODES}t{rank}" for rank in gone)}
    assert not any(each.deleted() for each in found[1:])


def test_one_that_ends_later_is_reported_too(lost):
    """Also if that was the first survivor before."""
    found = lost(2, 4, [0])
    found.report()
    found.lost = [0, 1]
    until(lambda: f"{NODES}t1" in found.deleted())
    assert f"{NODES}t0" in found.deleted()
    assert f"{NODES}t2" not in found.deleted()


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
