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
    found, _ = _read(store)
    return dict(found.reasons)


def _read(store: KeyValueStore) -> tuple[Excluded, int]:
    """The exclusions, and the version of their key."""
    entry = store.read(EXCLUDED)
    if not entry:
        return Excluded(), ABSENT
    found = decoded(EXCLUDED, entry.value)
    assert isinstance(found, Excluded)
    return found, entry.version


def _change(store: KeyValueStore, change: Callable[[Reasons], Reasons]) -> None:
    while True:
        before, version = _read(store)
        value = encoded(Excluded(change(before.reasons)))
        if store.compare_set(EXCLUDED, value, version).succeeded:
            return
