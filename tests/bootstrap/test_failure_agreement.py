"""What ranks on several hosts do when the store of their job does not answer."""

import json
from types import SimpleNamespace

from collalgo.bootstrap import failure_agreement
from collalgo.bootstrap.failure_agreement import ANSWER_SECONDS, FailureAgreement
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS as LONG, Entry, StoreError


class PausedStore:
    """A store that has stopped to answer, and how long it was waited for."""

    def __init__(self):
        self.waited = []

    def post(self, *_):
        pass

    def get(self, _key, timeout):
        self.waited.append(timeout)
        raise StoreError("late")

    def entries(self, _prefix):
        self.waited.append(LONG)
        raise StoreError("late")


class Store(PausedStore):
    def get(self, _key, timeout):
        return b""

    def entries(self, prefix):
        about = json.dumps({"calls": [3, [], True]}).encode()
        return {f"{prefix}1": Entry(about, 1), f"{prefix}2": Entry(about, 2)}


def agreements(store, monkeypatch, count=3):
    """Those of several worlds of a job; rank 2 is on this host."""
    monkeypatch.setattr(failure_agreement, "calls_of", lambda *_, **__: (0, 3, []))
    monkeypatch.setattr(failure_agreement, "difference", lambda mine, each: each.rank)
    job = SimpleNamespace(store=store, store_rank=1, store_is_late=False)
    shared = SimpleNamespace(rank=0, members=(0, 2), failure=lambda: None)
    transport = SimpleNamespace(rank=0, shared=shared)
    return [
        FailureAgreement(job, f"world{number}", transport, (0, 1, 2))
        for number in range(count)
    ]


def test_closing_waits_for_a_late_store_shortly_and_only_once(monkeypatch):
    store = PausedStore()
    found = [each.difference() for each in agreements(store, monkeypatch)]
    assert found == [None] * 3
    assert store.waited == [ANSWER_SECONDS]


def test_closing_reads_who_has_left_on_other_hosts(monkeypatch):
    found = [each.difference() for each in agreements(Store(), monkeypatch)]
    assert found == [1] * 3
