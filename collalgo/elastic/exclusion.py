"""Exclude nodes that fail repeatedly, and readmit them."""

from collections.abc import Callable

from collalgo.bootstrap.store.job_keys import EXCLUDED
from collalgo.bootstrap.store.protocol import ABSENT, KeyValueStore
from collalgo.elastic.documents import Excluded, decoded, encoded

Reasons = dict[str, str]


def exclude(store: KeyValueStore, name: str, reason: str) -> None:
    """Exclude a node from the job."""
    _change(store, lambda reasons: {**reasons, name: reason})


def readmit(store: KeyValueStore, name: str) -> None:
    """Readmit an excluded node."""
    _change(store, lambda reasons: {k: reasons[k] for k in reasons if k != name})


def exclusions(store: KeyValueStore) -> Reasons:
    """The names of the excluded nodes, with the reasons."""
    entry = store.read(EXCLUDED)
    found = decoded(EXCLUDED, entry.value) if entry else Excluded()
    assert isinstance(found, Excluded)
    return dict(found.reasons)


def _change(store: KeyValueStore, change: Callable[[Reasons], Reasons]) -> None:
    while True:
        entry = store.read(EXCLUDED)
        before = decoded(EXCLUDED, entry.value) if entry else Excluded()
        assert isinstance(before, Excluded)
        value = encoded(Excluded(change(before.reasons)))
        version = entry.version if entry else ABSENT
        if store.compare_set(EXCLUDED, value, version).succeeded:
            return
