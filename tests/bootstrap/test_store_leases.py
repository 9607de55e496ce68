"""Leases of every key-value store; see ``collalgo.bootstrap.store.lease``.

Deadlines bound how long an event may take; they do not measure speed.
"""

import time
from threading import Event

import pytest

from collalgo.bootstrap.store.lease import Lease
from collalgo.bootstrap.store.protocol import ABSENT, LeaseExpired, StoreError
from tests.support.store_clients import DEADLINE, Seen, until

pytestmark = pytest.mark.deadline

#: Seconds of a lease, which etcd rounds up to 2 or more.
LIFETIME = 1.0


def test_the_keys_of_a_lease_live_as_long_as_it_is_renewed(new_store):
    one, other = new_store(), new_store()
    lease = one.lease(LIFETIME)
    one.set("leased", b"x", lease=lease)
    one.set("kept", b"y")
    assert lease.seconds >= LIFETIME
    time.sleep(1.7 * lease.seconds)
    assert list(other.entries("")) == ["kept", "leased"]
    assert 0 < lease.remaining() <= lease.seconds
    one.close()
    until(lambda: list(other.entries("")) == ["kept"])
    assert lease.remaining() == 0


def test_a_lease_that_is_not_renewed_expires(new_store):
    holder, other, seen = new_store(), new_store(), Seen()
    other.watch("leased", seen)
    lease = holder.lease(LIFETIME)
    holder.set("leased", b"x", lease=lease)
    lease.stop()
    until(lambda: seen.pairs() == [("leased", b"x"), ("leased", None)])
    assert lease.remaining() == 0
    with pytest.raises(LeaseExpired):
        holder.set("leased", b"y", lease=lease)
    with pytest.raises(LeaseExpired):
        holder.compare_set("leased", b"y", ABSENT, lease=lease)
    assert other.read("leased") is None
    assert holder.compare_set(
        "leased", b"y", ABSENT, lease=holder.lease(LIFETIME)
    ).succeeded


def test_a_holder_stops_before_the_store_gives_its_key_away(new_store):
    """The time that a lease claims to remain ends before its key is gone."""
    holder, other = new_store(), new_store()
    lease = holder.lease(LIFETIME)
    holder.set("lock", b"holder", lease=lease)
    lease._stopped.wait(0.5 * lease.seconds)
    lease._renew = lambda _: (_ for _ in ()).throw(StoreError("not reachable"))
    gone = Event()
    other.watch("lock", lambda change: change.value is None and gone.set())
    certain = time.monotonic() + lease.remaining()
    assert gone.wait(30)
    assert time.monotonic() >= certain
    assert lease.remaining() == 0


def test_a_revoked_lease_ends_at_once_with_all_its_keys(new_store):
    one, other = new_store(), new_store()
    lease, second = one.lease(60), one.lease(60)
    one.set("a", b"", lease=lease)
    one.set("b", b"", lease=lease)
    one.set("c", b"", lease=second)
    one.set("freed", b"", lease=lease)
    one.set("freed", b"")
    lease.revoke()
    assert list(other.entries("")) == ["c", "freed"]
    assert lease.remaining() == 0
    with pytest.raises(LeaseExpired):
        one.set("a", b"", lease=lease)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_what_is_no_time_to_live_is_refused(new_store, seconds):
    store = new_store()
    with pytest.raises(ValueError, match="not a lifetime; pass"):
        store.lease(seconds)
    store.set("good", b"")


def test_a_lease_that_may_have_ended_is_renewed_as_soon_as_the_store_answers():
    """The next turn would be after 100 s."""
    failures, renewed = [StoreError("it is cut off")] * 2, Event()

    def renew(identifier):
        if failures:
            raise failures.pop()
        renewed.set()
        return True

    lease = Lease(1, 300.0, time.monotonic() - 301.0, renew, lambda identifier: None)
    assert lease.remaining() == 0
    assert renewed.wait(DEADLINE)
    until(lambda: lease.remaining() > 0)
    lease.stop()
