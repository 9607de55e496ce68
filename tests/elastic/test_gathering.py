"""Members let the processes of a node join together."""

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from collalgo.elastic import epochs
from collalgo.elastic.epochs import GATHERING_SECONDS, Epochs
from collalgo.elastic.interface import MembershipChange
from tests.support.store_clients import DEADLINE, until

WAITS = MembershipChange(1, waiting=1)


@pytest.fixture
def clock(monkeypatch):
    found = Mock(return_value=100.0)
    monkeypatch.setattr(epochs, "time", Mock(monotonic=found))
    return found


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


def test_the_first_commit_later_admits_those_that_have_waited(clock):
    rendezvous = Mock(**{"change.return_value": WAITS})
    members = Epochs(rendezvous)
    (react,), _ = rendezvous.watch.call_args
    react(WAITS)
    clock.return_value = 100.0 + GATHERING_SECONDS
    assert members.has_changed()


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
