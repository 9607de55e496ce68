"""Stores that fail for a while as the members of an epoch connect."""

from itertools import count
from math import inf
from unittest.mock import Mock

import pytest

from collalgo.bootstrap.store import repeated as requests
from collalgo.bootstrap.store.protocol import (
    Denied,
    Fenced,
    LeaseExpired,
    NotSet,
    StoreError,
)
from collalgo.bootstrap.store.repeated import repeated
from collalgo.elastic import epochs
from collalgo.elastic.epochs import Epochs
from tests.bootstrap.conftest import connect, server  # noqa: F401
from tests.elastic.test_lost_while_connecting import Engine, Rendezvous

#: The requests of members that connect.
REQUESTS = "set", "expect", "entries"


class FailingStore:
    """A store that fails some number of requests of a kind for the first epoch."""

    def __init__(self, store, kind, failures, then=lambda: None):
        self._store, self._kind = store, kind
        self.failures, self._then = failures, then

    def __getattr__(self, name):
        request = getattr(self._store, name)
        return self._failing(request) if name == self._kind else request

    def _failing(self, request):
        def ask(key, *words):
            if not self.failures or not key.startswith("epoch/1/"):
                return request(key, *words)
            self.failures -= 1
            self._then()
            raise StoreError("etcd does not answer")

        return ask


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Members on one host, which make the next attempt at once."""
    monkeypatch.setattr(requests, "PAUSE", 0.0)
    monkeypatch.setattr(epochs, "without_mpi", lambda *_: Engine(0, waits=False))
    monkeypatch.setattr(Epochs, "fails_soon", Epochs._has_failed)  # it is known


def join(rendezvous):
    """Join alone: the members of the epoch."""
    joining = Epochs(rendezvous)
    joining.grow(1.0).abort("the test ends")
    return joining.members


@pytest.mark.parametrize("failures", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("kind", REQUESTS)
def test_members_connect_once_a_store_that_fails_is_back(
    connect,  # noqa: F811
    kind,
    failures,
):
    store = FailingStore(connect(), kind, failures)
    rendezvous = Rendezvous(store, 0, 1)
    join(rendezvous)
    assert not store.failures


@pytest.mark.parametrize("kind", REQUESTS)
def test_members_connect_over_the_connection_that_replaces_a_lost_one(
    connect,  # noqa: F811
    kind,
):
    def replace():
        rendezvous.store = connect()

    rendezvous = Rendezvous(FailingStore(connect(), kind, inf, replace), 0, 1)
    join(rendezvous)
    assert not isinstance(rendezvous.store, FailingStore)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_store_that_does_not_come_back_is_named_with_the_seconds(
    connect,  # noqa: F811
    monkeypatch,
    kind,
):
    monkeypatch.setattr(epochs, "JOIN_TIMEOUT", 0.3)
    store = FailingStore(connect(), kind, inf)
    words = r"the store of epoch 1 at job j has not answered within 0\.3 s: etcd does"
    with pytest.raises(StoreError, match=words):
        join(Rendezvous(store, 0, 1))


@pytest.mark.parametrize("kind", REQUESTS)
def test_no_store_is_asked_for_an_epoch_that_has_ended(
    connect,  # noqa: F811
    kind,
):
    def then():
        if next(failed) == 3:
            rendezvous.fail()

    failed = count(1)
    rendezvous = Rendezvous(FailingStore(connect(), kind, inf, then), 0, 1)
    assert join(rendezvous) == ("a",)
    assert next(failed) == 4


@pytest.mark.parametrize(
    "refusal",
    [Denied("no"), Fenced("no"), LeaseExpired("no"), NotSet("key", 1.0)],
)
def test_no_request_that_a_store_refuses_is_repeated(refusal):
    request = Mock(side_effect=refusal)
    with pytest.raises(type(refusal)):
        repeated(request, 9.0, "the store", lambda: None)
    request.assert_called_once_with()
