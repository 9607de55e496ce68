"""The watchers of a store in a folder, and the changes to report to them."""

import logging
from collections.abc import Iterable, Mapping

from collalgo.bootstrap.store.protocol import Change, Entry, Watcher

_LOG = logging.getLogger("collalgo")


class Watch:
    """A watcher that is registered with a store in a folder."""

    def __init__(self, prefix: str, watcher: Watcher):
        self.prefix, self._watcher = prefix, watcher
        self.cancelled = False

    def cancel(self) -> None:
        """Stop the calls of the watcher."""
        self.cancelled = True

    def tell(self, change: Change) -> None:
        """Call the watcher; its error must not end the watch."""
        if self.cancelled:
            return
        try:
            self._watcher(change)
        except Exception:
            _LOG.exception("a watcher of the key %s failed", change.key)


class Watches:
    """All watchers of a store; its lock is held in each call."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._pending: list[tuple[Watch, Change]] = []

    def add(self, prefix: str, watcher: Watcher, entries: Mapping[str, Entry]) -> Watch:
        """Register a watcher, which is called for the existing keys."""
        watch = Watch(prefix, watcher)
        self._watches.append(watch)
        present = sorted(entries.items(), key=lambda item: item[1].version)
        self._pending += [
            (watch, Change(key, *entry))
            for key, entry in present
            if key.startswith(prefix)
        ]
        return watch

    def note(self, changes: Iterable[Change]) -> None:
        """Note changes for the watchers of their keys."""
        for change in changes:
            self._pending += [
                (watch, change)
                for watch in self._watches
                if change.key.startswith(watch.prefix)
            ]

    def take(self) -> list[tuple[Watch, Change]]:
        """The changes to report now, in the order of versions."""
        self._watches = [each for each in self._watches if not each.cancelled]
        pending, self._pending = self._pending, []
        return pending
