"""The keys of members of an elastic job that have ended, in its store."""

import json
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from threading import Event, Thread

from collalgo.base.threads import ThreadRefused, start
from collalgo.bootstrap.store.at_url import KINDS, StorePlace, running_store
from collalgo.bootstrap.store.job_keys import LEADER, NODES
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.errors import BootstrapError

#: The errors of documents that are malformed.
MALFORMED = ValueError, RecursionError, LookupError, TypeError

#: Seconds in which a report should arrive.
SECONDS = 1.0


class EndReport:
    """The report that the process of a member has ended, to the store of its job.

    An etcd would keep the keys of the process until its lease ends, and the other
    members would wait so long. A thread deletes them, as a store that is not reached
    would delay the caller; if it cannot be connected nothing is done.

    Parameters
    ----------
    place
        The store.
    name
        The member.
    """

    def __init__(self, place: StorePlace, name: str):
        self._place, self._name = place, name
        self._cancelled = Event()
        self._thread: Thread | None = None
        kind = KINDS.get(place.url.scheme)
        if kind is not None and not kind.sees_ends:
            thread = Thread(target=self._send, name=f"collalgo end of {name}")
            thread.daemon = True
            with suppress(ThreadRefused):
                self._thread = start(thread)

    def cancel(self) -> None:
        """Delete nothing from now on: another process of the member is to begin."""
        self._cancelled.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has arrived, or some seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _send(self) -> None:
        with (
            suppress(BootstrapError, OSError),
            closing(running_store(self._place)) as store,
        ):
            remove_member(store, self._name, self._cancelled.is_set)


class EndReports:
    """The reports of the ends of the members of one launcher.

    Parameters
    ----------
    place
        The store.
    """

    def __init__(self, place: StorePlace):
        self._place = place
        self._sent: dict[str, EndReport] = {}

    def send(self, name: str) -> None:
        """Report that the process of a member has ended."""
        self._sent[name] = EndReport(self._place, name)

    def settle(self, name: str) -> None:
        """Let the report of a member arrive soon or never: another process begins."""
        if report := self._sent.pop(name, None):
            report.wait(SECONDS)
            report.cancel()

    def close(self) -> None:
        """Let all reports arrive, if they do so soon."""
        for name in list(self._sent):
            self.settle(name)


def remove_member(
    store: KeyValueStore, name: str, cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Delete the keys of the processes of a member, unless it is cancelled."""
    for prefix in (NODES, LEADER):
        for key, entry in store.entries(prefix).items():
            if _process_in(entry.value)[0] == name and not cancelled():
                store.delete(key, entry.version)


def remove_processes(store: KeyValueStore, tokens: Collection[str]) -> None:
    """Delete the keys of some processes, which have no others when they start again.

    One that lives sets them again as it asks for the next epoch.
    """
    leader = store.read(LEADER)
    if leader is not None and _process_in(leader.value)[1] in tokens:
        store.delete(LEADER, leader.version)
    for token in tokens:
        store.delete(NODES + token)


def _process_in(document: bytes) -> tuple[str, str] | tuple[None, None]:
    """The name and the token of the process that a document names."""
    with suppress(*MALFORMED):
        name, token = json.loads(document)["member"]
        if isinstance(name, str) and isinstance(token, str):
            return name, token
    return None, None
