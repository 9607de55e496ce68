"""The end of a member is reported to the store, however slow that is."""

import socket
import threading
from threading import Event
from unittest.mock import Mock

import pytest

from collalgo.bootstrap.store import ended_members
from collalgo.bootstrap.store.at_url import KINDS, STORES, store_place
from collalgo.bootstrap.store.ended_members import EndReports, remove_member
from collalgo.bootstrap.store.job_keys import NODES


def reports():
    """The threads that report an end."""
    return [t for t in threading.enumerate() if t.name.startswith("collalgo end of")]


def test_a_store_that_does_not_answer_delays_nobody():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        place = store_place(f"etcd://127.0.0.1:{port}", "job")
        EndReports(place).send("a")
        assert reports()  # while it waits for an answer
    for thread in reports():
        thread.join(30)
    assert not reports()


def test_stores_that_see_the_end_of_a_process_are_told_nothing():
    EndReports(store_place("collalgo://127.0.0.1:1", "job")).send("a")
    assert not reports()


def test_a_report_that_is_late_deletes_nothing_of_the_next_process():
    entries = {"node/1": Mock(value=b'{"member": ["a", "token"]}', version=3)}
    store = Mock(
        **{"entries.side_effect": lambda prefix: entries if prefix == NODES else {}}
    )
    remove_member(store, "b")
    remove_member(store, "a", lambda: True)
    assert not store.delete.called
    remove_member(store, "a")
    store.delete.assert_called_once_with("node/1", 3)


@pytest.mark.parametrize("value", [b"x", b"[]", b"{}", b'{"member": ["a"]}', b"\xff"])
def test_malformed_keys_of_others_do_not_keep_those_of_a_member(value):
    entries = {
        "node/0": Mock(value=value, version=2),
        "node/1": Mock(value=b'{"member": ["a", "token"]}', version=3),
    }
    store = Mock(
        **{"entries.side_effect": lambda prefix: entries if prefix == NODES else {}}
    )
    remove_member(store, "a")
    store.delete.assert_called_once_with("node/1", 3)


@pytest.mark.parametrize("scheme", sorted(STORES))
def test_each_of_our_stores_is_known_before_it_is_connected(scheme):
    assert KINDS.keys() == STORES.keys()
    assert KINDS[scheme].sees_ends is (scheme not in ("etcd", "replicated"))


def test_reports_are_waited_for_and_cancelled(monkeypatch):
    begun, go_on, found = Event(), Event(), []

    def remove(_store, name, cancelled):
        begun.set()
        go_on.wait(30)
        found.append((name, cancelled()))

    monkeypatch.setattr(ended_members, "running_store", lambda _place: Mock())
    monkeypatch.setattr(ended_members, "remove_member", remove)
    monkeypatch.setattr(ended_members, "SECONDS", 0.01)
    sent = EndReports(store_place("etcd://127.0.0.1:1", "job"))
    sent.send("a")
    begun.wait(30)
    sent.settle("a")  # which does not wait for ever
    sent.close()
    go_on.set()
    for thread in reports():
        thread.join(30)
    assert found == [("a", True)]
