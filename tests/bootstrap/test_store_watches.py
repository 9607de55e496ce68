"""Every key-value store calls its watchers with each change."""

from threading import Event, Thread
from unittest.mock import Mock

from collalgo.bootstrap.store import pending
from collalgo.bootstrap.store.pending import Expected
from collalgo.bootstrap.store.protocol import Change, Entry
from tests.support.store_clients import DEADLINE, Seen, until


def test_a_watcher_sees_the_keys_that_are_there_and_each_change(new_store):
    one, other, seen = new_store(), new_store(), Seen()
    one.set("w/before", b"1")
    one.set("elsewhere", b"1")
    other.watch("w/", seen)
    until(lambda: len(seen.changes) == 1)
    versions = [one.set("w/after", b"2")]
    one.delete("w/before")
    one.compare_set("w/after", b"3", versions[0])
    versions.append(one.set("w/end", b""))
    until(lambda: len(seen.changes) == 5)
    assert seen.pairs() == [
        ("w/before", b"1"),
        ("w/after", b"2"),
        ("w/before", None),
        ("w/after", b"3"),
        ("w/end", b""),
    ]
    order = [change.version for change in seen.changes]
    assert order == sorted(set(order))
    assert [order[1], order[4]] == versions


def test_watchers_that_come_late_see_the_last_state(new_store):
    one, other = new_store(), new_store()
    for number in range(10):
        one.set("late/a", b"%d" % number)
    one.set("late/b", b"x")
    one.delete("late/b")
    for _ in range(2):  # a second watch of a client repeats nothing to the first
        seen = Seen()
        other.watch("late/", seen)
        until(lambda seen=seen: seen.changes)
        assert seen.changes == [Change("late/a", *one.read("late/a"))]


def test_a_watcher_misses_nothing_while_others_change_keys(new_store):
    one, other, seen = new_store(), new_store(), Seen()
    begun = Event()

    def change():
        for number in range(200):
            one.set("busy", b"%d" % number)
            begun.set()

    changing = Thread(target=change)
    changing.start()
    begun.wait(DEADLINE)
    other.watch("busy", seen)
    changing.join()
    until(lambda: seen.changes[-1:] and seen.changes[-1].value == b"199")
    numbers = [int(change.value) for change in seen.changes]
    assert numbers == list(range(numbers[0], 200))


def test_a_watch_that_is_cancelled_is_called_no_more(new_store):
    one, other, cancelled, seen = new_store(), new_store(), Seen(), Seen()
    watch = other.watch("w", cancelled)
    other.watch("w", seen)
    one.set("w", b"1")
    until(lambda: seen.changes and cancelled.changes)
    watch.cancel()
    one.set("w", b"2")
    until(lambda: len(seen.changes) == 2)
    assert len(cancelled.changes) == 1


def test_a_watcher_that_raises_does_not_end_the_watch(new_store, caplog):
    one, other, keys = new_store(), new_store(), []

    def watcher(change):
        keys.append(change.key)
        raise RuntimeError("of a watcher")

    other.watch("w/", watcher)
    one.set("w/1", b"")
    one.set("w/2", b"")
    until(lambda: keys == ["w/1", "w/2"])
    assert other.get("w/1") == b""
    assert "a watcher of the key w/1 failed" in caplog.text


def test_a_store_that_is_polled_is_read_soon_at_first(monkeypatch):
    """Members of an exchange set their keys at about the same time."""
    monkeypatch.setattr(pending, "POLL_SECONDS", 1e6)
    store = Mock(**{"read.side_effect": [None, None, None, Entry(b"found", 1)]})
    assert Expected(store, "key").result(DEADLINE) == b"found"


def test_one_request_watches_the_keys_of_several_prefixes(connect):
    store, seen, others = connect(), Seen(), Seen()
    store.set("a/before", b"1")
    watch = store.watch_each({"a/": seen, "b/": others})
    for key in ("b/1", "c/1", "a/1"):
        store.set(key, b"2")
    until(lambda: len(seen.changes) + len(others.changes) == 3)
    assert seen.pairs() == [("a/before", b"1"), ("a/1", b"2")]
    assert others.pairs() == [("b/1", b"2")]
    watch.cancel()
    store.set("a/2", b"3")
    assert store.read("c/1").value == b"2"  # after which no change of a key follows
    assert len(seen.changes) == 2
