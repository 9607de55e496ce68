"""Every key-value store keeps the protocol; see ``collalgo.bootstrap.store.protocol``.

Deadlines bound how long an event may take; they do not measure speed.
"""

import secrets
import threading
from threading import Thread

import pytest

from collalgo.bootstrap.store.protocol import (
    ABSENT,
    KEY_BYTES,
    MOST_FENCES,
    VALUE_BYTES,
    Change,
    Entry,
    Fence,
    Fenced,
    Outcome,
    StoreError,
    add,
)
from tests.support.store_clients import DEADLINE, Seen, until


def at_once(function, arguments):
    """Call a function in several threads, and wait for all of them."""
    threads = [Thread(target=function, args=(each,)) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_one_client_sets_the_others_get(new_store):
    one, other = new_store(), new_store()
    version = one.set("a", b"\0\xff")
    assert other.get("a", 1) == b"\0\xff"
    assert other.read("a") == Entry(b"\0\xff", version)
    assert other.read("b") is None
    assert add(other, "n", 5) == 5
    assert add(one, "n", -2) == 3
    assert one.get("n", 1) == b"3"
    assert list(one.entries("")) == ["a", "n"]
    assert list(one.entries("n")) == ["n"]
    assert one.entries("a") == {"a": Entry(b"\0\xff", version)}
    assert one.delete("a")
    assert not one.delete("a")
    assert one.entries("a") == {}


def test_compare_set_changes_a_key_only_at_its_version(new_store):
    one, other = new_store(), new_store()
    created = one.compare_set("c", b"x", ABSENT)
    assert created == Outcome(True, one.read("c"))
    assert other.compare_set("c", b"y", ABSENT) == Outcome(False, created.entry)
    version = created.entry.version
    assert other.compare_set("c", b"y", version + 1) == Outcome(False, created.entry)
    changed = other.compare_set("c", b"y", version)
    assert changed.succeeded
    assert changed.entry == one.read("c") == Entry(b"y", changed.entry.version)
    assert other.compare_set("d", b"y", version) == Outcome(False, None)
    assert one.read("d") is None


def test_a_fence_that_holds_leaves_a_change_to_the_version_of_its_key(new_store):
    one, other = new_store(), new_store()
    here = Fence("epoch", one.set("epoch", b"1"))
    assert other.compare_set("note", b"", ABSENT, fences=[here]).succeeded
    assert not other.compare_set("note", b"x", ABSENT, fences=[here]).succeeded


def test_a_fence_may_need_that_a_key_is_absent(new_store):
    one, other = new_store(), new_store()
    one.set("epoch", b"1")
    with pytest.raises(Fenced, match=r"key epoch has version .* needs 0"):
        other.set("first", b"", fences=[Fence("epoch", ABSENT)])
    assert one.read("first") is None


def test_a_fence_forbids_a_change_unless_its_key_has_the_version(new_store):
    one, other = new_store(), new_store()
    epoch = one.set("epoch", b"1")
    here, gone = Fence("epoch", epoch), Fence("closed", ABSENT)
    version = other.set("step", b"1", fences=[here, gone])
    new = one.set("epoch", b"1")  # the same value, yet another epoch
    for change in (
        lambda: other.set("step", b"2", fences=[gone, here]),
        lambda: other.compare_set("step", b"2", version, fences=[here, gone]),
        lambda: other.compare_set("step", b"2", version + 1, fences=[here]),
    ):
        with pytest.raises(Fenced, match=f"key epoch has version {new}, .* {epoch}"):
            change()
    assert one.read("step") == Entry(b"1", version)
    changed = one.compare_set("step", b"2", version, fences=[Fence("epoch", new)])
    assert changed.succeeded


def test_a_change_has_a_limited_number_of_fences(new_store):
    store = new_store()
    fences = [Fence(f"k{number}", ABSENT) for number in range(MOST_FENCES)]
    assert store.compare_set("k", b"", ABSENT, fences=fences).succeeded
    with pytest.raises(ValueError, match=f"{MOST_FENCES + 1} fences are more than"):
        store.set("k", b"", fences=[*fences, Fence("more", ABSENT)])
    with pytest.raises(ValueError, match="need 1 to"):
        store.set("k", b"", fences=[Fence("", ABSENT)])


def test_a_version_is_never_used_again(new_store):
    """The same value set again, or a key deleted and created again, is a change."""
    one, other = new_store(), new_store()
    versions = []
    for store in (one, other, one):
        versions.append(store.set("k", b"same"))
        versions.append(store.set("other", b"same"))
        assert store.delete("k")
    versions.append(one.set("k", b"same"))
    assert versions == sorted(set(versions))
    for old in versions[:-1]:
        assert not other.compare_set("k", b"mine", old).succeeded
        assert not other.delete("k", old)
    assert other.read("k") == Entry(b"same", versions[-1])
    assert other.delete("k", versions[-1])
    assert one.read("k") is None


def test_a_get_waits_until_the_key_is_set_or_it_is_too_late(new_store):
    one, other = new_store(), new_store()
    found = []
    waiting = Thread(target=lambda: found.append(one.get("late", 5)))
    waiting.start()
    with pytest.raises(StoreError, match=r"key never was not set within 0\.05 s"):
        other.get("never", 0.05)
    other.set("late", b"here")
    waiting.join()
    assert found == [b"here"]


def test_a_pending_get_can_be_broken_off(new_store):
    pending = new_store().expect("never")
    threading.Timer(0.1, pending.fail, [StoreError("given up")]).start()
    with pytest.raises(StoreError, match="given up"):
        pending.result(DEADLINE)


def test_numbers_that_many_add_to_are_not_lost(new_store):
    stores = [new_store() for _ in range(3)]
    at_once(lambda store: [add(store, "n", 1) for _ in range(20)], stores)
    assert stores[0].get("n") == b"60"


def test_of_many_clients_that_create_a_key_one_succeeds(new_store):
    stores = [new_store() for _ in range(4)]
    for attempt in range(10):
        winners = []

        def create(number, key=f"leader/{attempt}", winners=winners):
            value = b"%d" % number
            if stores[number].compare_set(key, value, ABSENT).succeeded:
                winners.append(value)

        at_once(create, range(len(stores)))
        assert winners == [stores[0].get(f"leader/{attempt}")]


def test_posts_arrive_in_order_and_before_the_end(new_store):
    one, other = new_store(), new_store()
    for number in range(20):
        one.post("posted", b"%d" % number)
    one.post("posted", b"too late", ABSENT)
    one.post("created", b"1", ABSENT)
    one.close()
    assert other.get("created", DEADLINE) == b"1"
    assert other.get("posted", 1) == b"19"


@pytest.mark.parametrize(
    "key",
    ["a b", "/", "//a//", "%2F", "\u00e9\u4e2d\U0001f680", "\n\t", "\0", "\x7f", "..",
     "*?[x]", "'\"\\", "k" * KEY_BYTES],
)  # fmt: skip
def test_keys_may_have_odd_characters(new_store, key):
    store, seen = new_store(), Seen()
    store.watch(key, seen)
    version = store.set(key, b"v")
    assert store.get(key, 1) == b"v"
    assert store.entries(key[:1]) == {key: Entry(b"v", version)}
    until(lambda: seen.changes)
    assert seen.changes == [Change(key, b"v", version)]
    assert store.delete(key)


def test_a_prefix_is_no_pattern_and_ends_anywhere(new_store):
    store = new_store()
    for key in ("a", "a/1", "a/2", "a\U0010ffff", "ab", "b", "a."):
        store.set(key, b"")
    assert list(store.entries("a/")) == ["a/1", "a/2"]
    assert list(store.entries("a")) == ["a", "a.", "a/1", "a/2", "ab", "a\U0010ffff"]
    assert store.entries("a*") == {}
    assert len(store.entries("")) == 7


def test_large_values_arrive_whole_and_larger_ones_are_refused(new_store):
    store, other = new_store(), new_store()
    assert store.value_bytes >= VALUE_BYTES
    value = secrets.token_bytes(VALUE_BYTES)
    for key in ("large/1", "large/2", "large/3"):
        store.set(key, value)
    assert other.get("large/1", 5) == value
    found = other.entries("large/")
    assert [entry.value == value for entry in found.values()] == [True] * 3
    seen = Seen()
    other.watch("large/", seen)
    until(lambda: len(seen.changes) == 3)
    too_large = bytes(store.value_bytes + 1)
    for change in (store.set, store.post):
        with pytest.raises(ValueError, match="are more than"):
            change("larger", too_large)
    with pytest.raises(ValueError, match="are more than"):
        store.compare_set("larger", too_large, ABSENT)
    assert store.read("larger") is None


@pytest.mark.parametrize("key", ["", "k" * (KEY_BYTES + 1), "\udcff"])
def test_what_is_no_key_is_refused(new_store, key):
    store = new_store()
    for request in (
        lambda: store.set(key, b""),
        lambda: store.post(key, b""),
        lambda: store.get(key, 1),
        lambda: store.read(key),
        lambda: store.compare_set(key, b"", ABSENT),
        lambda: store.delete(key),
    ):
        with pytest.raises(ValueError, match=r"need 1 to|surrogates not allowed"):
            request()
    store.set("good", b"")
