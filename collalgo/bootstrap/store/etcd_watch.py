"""A watch of etcd that continues after interruptions."""

import logging
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from threading import Event, Thread
from typing import Any

from collalgo.base.finalizers import Lock, serving
from collalgo.base.threads import start
from collalgo.bootstrap.store.etcd_gateway import Gateway
from collalgo.bootstrap.store.etcd_messages import Stream, after_all, content, text
from collalgo.bootstrap.store.protocol import Change, Entry, StoreError, Watcher

_LOG = logging.getLogger("collalgo")

#: Seconds until an interrupted watch is begun again.
RETRY_SECONDS = 0.1


class EtcdWatch:
    """A watcher that is registered with etcd; a thread of its own calls it.

    It lists the keys, then follows the changes since. After an interruption, or when
    etcd has compacted the changes away, it lists them again and reports what differs.

    Parameters
    ----------
    gateway
        The requests to etcd.
    root
        The prefix of all keys of the store.
    list_entries
        Lists the keys of the watch, with the revision of etcd that holds them.
    prefix
        Of the keys to watch.
    watcher
        Called for each change.
    """

    def __init__(
        self,
        gateway: Gateway,
        root: bytes,
        list_entries: Callable[[], tuple[dict[str, Entry], int]],
        prefix: str,
        watcher: Watcher,
    ):
        self._gateway, self._root, self._list = gateway, root, list_entries
        self._start = root + prefix.encode()
        self._watcher = watcher
        self._known: dict[str, int] = {}
        self._cancelled = Event()
        self._lock = Lock()
        self._stream: Stream | None = None
        first = list_entries()  # raises StoreError here, not in the thread
        self._thread = Thread(
            target=self._run, args=first, name="collalgo watch", daemon=True
        )
        start(self._thread)

    def cancel(self) -> None:
        """Stop the calls of the watcher."""
        self._cancelled.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    @serving()
    def _run(self, entries: dict[str, Entry], revision: int) -> None:
        while True:
            self._compare(entries, revision)
            with suppress(StoreError, OSError, HTTPException):
                self._follow(revision + 1)
            while True:
                if self._cancelled.wait(RETRY_SECONDS):
                    return
                with suppress(StoreError):
                    entries, revision = self._list()
                    break

    def _compare(self, entries: dict[str, Entry], revision: int) -> None:
        """Report how a list of the keys differs from what was reported."""
        for key in sorted(self._known.keys() - entries.keys()):
            self._report(Change(key, None, revision))
        for key, (value, version) in sorted(
            entries.items(), key=lambda item: item[1].version
        ):
            if version > self._known.get(key, 0):
                self._report(Change(key, value, version))

    def _follow(self, revision: int) -> None:
        """Report the changes from a revision on, until the stream ends."""
        start, end = text(self._start), text(after_all(self._start))
        request = {"key": start, "range_end": end, "start_revision": revision}
        stream = self._gateway.stream("watch", {"create_request": request})
        with self._lock:
            self._stream = stream
            if self._cancelled.is_set():
                stream.close()
        try:
            for message in stream:
                result = message.get("result", {})
                if "error" in message or result.get("canceled"):
                    return
                for event in result.get("events", ()):
                    self._report(self._change(event))
        finally:
            with self._lock:
                self._stream = None
            stream.release()

    def _change(self, event: dict[str, Any]) -> Change:
        kv = event["kv"]
        key = content(kv["key"]).removeprefix(self._root).decode()
        is_deleted = event.get("type") == "DELETE"
        value = None if is_deleted else content(kv.get("value"))
        return Change(key, value, int(kv["mod_revision"]))

    def _report(self, change: Change) -> None:
        """Call the watcher; its error must not end the watch."""
        if self._cancelled.is_set():
            return
        if change.value is None:
            self._known.pop(change.key, None)
        else:
            self._known[change.key] = change.version
        try:
            self._watcher(change)
        except Exception:
            _LOG.exception("a watcher of the key %s failed", change.key)
