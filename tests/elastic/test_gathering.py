"""Members let processes that return at once, of a node or several, join together."""

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from collalgo.elastic import gathering
from collalgo.elastic.epochs import Epochs
from collalgo.elastic.gathering import GATHERING_SECONDS, MOST_SECONDS
from collalgo.elastic.interface import MembershipChange
from collalgo.errors import RendezvousError
from tests.support.store_clients import DEADLINE, until

WAITS = MembershipChange(1, waiting=1)


@pytest.fixture
def clock(monkeypatch):
    found = Mock(return_value=100.0)
    monkeypatch.setattr(gathering, "time", Mock(monotonic=found))
    return found


def waiting(count):
    """The change of the members that some processes wait to join."""
    return MembershipChange(1, waiting=count)


def test_members_wait_for_more_processes_than_the_first_but_not_long(clock):
    rendezvous = Mock()
    members = Epochs(rendezvous)
    for change, seconds, is_known in (
        (None, 0, False),
        (WAITS, 0, False),
        (WAITS, GATHERING_SECONDS / 2, False),
        (WAITS, GATHERING_SECONDS, True),
        (None, GATHERING_SECONDS, False),  # it has left
        (WAITS, 9, False),
        (WAITS, 9 + GATHERING_SECONDS, True),
    ):
        rendezvous.change.return_value = change
        clock.return_value = 100.0 + seconds
        assert members.has_changed() == is_known


@pytest.mark.parametrize("count", [2, 3, 5])
def test_processes_that_arrive_in_succession_join_in_one_round(clock, count):
    """So do those of several nodes that return at once, however slow their start."""
    rendezvous = Mock()
    members = Epochs(rendezvous)
    pause = 0.9 * GATHERING_SECONDS
    for number in range(count):
        clock.return_value = 100.0 + pause * number
        rendezvous.change.return_value = waiting(number + 1)
        assert not members.has_changed()
    clock.return_value += GATHERING_SECONDS
    assert members.has_changed()


def test_processes_that_never_end_to_arrive_are_admitted(clock):
    rendezvous = Mock()
    members, number = Epochs(rendezvous), 0
    while clock.return_value < 100.0 + MOST_SECONDS:
        number += 1
        rendezvous.change.return_value = waiting(number)
        assert not members.has_changed()
        clock.return_value += GATHERING_SECONDS / 2
    assert members.has_changed()


def test_a_process_does_not_inherit_the_time_of_one_that_has_left(clock):
    """No commit comes between the two, and a thread tells of the first once more."""
    rendezvous = Mock(**{"change.return_value": WAITS})
    members = Epochs(rendezvous)
    (react,), _ = rendezvous.watch.call_args
    react(WAITS)
    rendezvous.change.return_value = None
    react(MembershipChange(1))
    react(WAITS)  # late
    clock.return_value = 200.0
    rendezvous.change.return_value = WAITS
    react(WAITS)
    assert not members.has_changed()
    clock.return_value += GATHERING_SECONDS
    assert members.has_changed()


def test_a_process_does_not_inherit_the_time_of_one_of_the_epoch_before(clock):
    rendezvous = Mock(**{"change.return_value": WAITS})
    members = Epochs(rendezvous)
    assert not members.has_changed()
    clock.return_value = 200.0
    rendezvous.change.return_value = MembershipChange(2, waiting=1)
    assert not members.has_changed()


def test_the_first_commit_later_admits_those_that_have_waited(clock):
    rendezvous = Mock(**{"change.return_value": WAITS})
    members = Epochs(rendezvous)
    (react,), _ = rendezvous.watch.call_args
    react(WAITS)
    clock.return_value = 100.0 + GATHERING_SECONDS
    assert members.has_changed()


def test_watchers_learn_that_a_process_no_longer_waits(meet):
    first, late = (meet(name, least=1) for name in "ab")
    told = []
    first.watch(lambda change: told.append(change.waiting))
    first.join()
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(late.join, 0.5)
        until(lambda: told[-1:] == [1])
        assert isinstance(joining.exception(DEADLINE), RendezvousError)
    until(lambda: told[-1:] == [0])


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        (MembershipChange(1, waiting=2, is_full=True), True),
        (MembershipChange(1, ("a",), waiting=1), True),
        (MembershipChange(1, waiting=2, is_full=True, closed=""), False),
    ],
)
def test_members_wait_neither_without_free_places_nor_after_a_failure(change, is_known):
    rendezvous = Mock(**{"change.return_value": change})
    assert Epochs(rendezvous).has_changed() == is_known


@pytest.mark.parametrize(("most", "is_full"), [(2, True), (3, False)])
def test_members_know_whether_those_that_wait_take_all_places(meet, most, is_full):
    first, late = (meet(name, most=most) for name in "ab")
    first.join()
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(late.join, DEADLINE)
        until(lambda: first.change() is not None)
        assert first.change().is_full == is_full
        first.join()
        assert joining.result(DEADLINE).size == 2
