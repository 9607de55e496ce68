"""The keys of members of an elastic job that have ended, in its store."""

import json
from contextlib import closing, suppress
from functools import partial
from threading import Thread

from collalgo.base.threads import ThreadRefused, start
from collalgo.bootstrap.store.at_url import StorePlace, running_store
from collalgo.bootstrap.store.job_keys import LEADER, NODES
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.errors import BootstrapError

#: The schemes of stores that do not see the end of a process, only that of its lease.
WITH_LEASES_ONLY = ("etcd", "replicated")


def report_end(place: StorePlace, name: str) -> None:
    """Begin to delete the keys of a member whose process has ended.

    An etcd would keep them until the lease of the process ends, and the other members
    would wait so long. A thread deletes them, as a store that is not reached would
    delay the caller. Nothing is done if it cannot be connected.
    """
    if place.url.scheme not in WITH_LEASES_ONLY:
        return
    report = partial(_report_end, place, name)
    with suppress(ThreadRefused):
        start(Thread(target=report, name=f"collalgo end of {name}", daemon=True))


def _report_end(place: StorePlace, name: str) -> None:
    with (
        suppress(BootstrapError, OSError),
        closing(running_store(place)) as store,
    ):
        remove_member(store, name)


def remove_member(store: KeyValueStore, name: str) -> None:
    """Delete the keys of the processes of a member."""
    for prefix in (NODES, LEADER):
        for key, entry in store.entries(prefix).items():
            if _name_in(entry.value) == name:
                store.delete(key, entry.version)


def _name_in(document: bytes) -> str | None:
    """The name of the member that a document names."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        name = json.loads(document)["member"][0]
        return name if isinstance(name, str) else None
    return None
