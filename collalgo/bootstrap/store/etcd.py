"""A key-value store in an etcd that runs already, by the HTTP gateway of version 3."""

import math
import ssl
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.store.etcd_gateway import Gateway, Repeat
from collalgo.bootstrap.store.etcd_messages import after_all, content, text
from collalgo.bootstrap.store.etcd_watch import EtcdWatch
from collalgo.bootstrap.store.lease import Lease
from collalgo.bootstrap.store.pending import Expected, Posts
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    ANSWER_SECONDS,
    VALUE_BYTES,
    Entry,
    Fence,
    LeaseExpired,
    Outcome,
    StoreError,
    Watcher,
    checked_fences,
    checked_key,
    fenced,
    refuse_large,
)


class Etcd:
    """The keys below a prefix in etcd; see :class:`~.protocol.KeyValueStore`.

    With certificates (``ETCDCTL_CACERT``, ``ETCDCTL_CERT``, ``ETCDCTL_KEY``) it is
    asked by HTTPS. A lease ends when it was not renewed for its time to live, which
    etcd rounds up to whole seconds, at least 2 by default.

    Parameters
    ----------
    members
        Host and port of each member of the cluster; one that answers is used.
    prefix
        The prefix of all keys.
    context
        For HTTPS; by default by the certificates above.

    Raises
    ------
    StoreError
        If no member answers.
    """

    value_bytes = VALUE_BYTES
    sees_ends = False

    def __init__(
        self,
        members: Sequence[tuple[str, int]],
        prefix: str,
        context: ssl.SSLContext | None = None,
    ):
        self._prefix = prefix.strip("/").encode() + b"/"
        self._gateway = Gateway(members, context)
        self._lock = Lock()
        self._leases: list[Lease] = []
        self._watches: list[EtcdWatch] = []
        self._posts = Posts()
        self._gateway.ask("maintenance/status", {})

    def set(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> int:
        """Set a key, and return the version of the change."""
        put = self._put(key, value, lease)
        if not fences:
            found = _unless_expired(self._gateway, "kv/put", put)
            return int(found["header"]["revision"])
        return self._change(key, put, [], fences)[1]

    def post(self, key: str, value: bytes, version: int | None = None) -> None:
        """Set a key without waiting for the answer."""
        self._put(key, value, None)  # raises ValueError here, if at all
        if version is None:
            self._posts.put(partial(self.set, key, value))
        else:
            self._posts.put(partial(self.compare_set, key, value, version))

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Wait for the value of a key."""
        return self.expect(key).result(timeout)

    def read(self, key: str) -> Entry | None:
        """The present value of a key, if it exists."""
        found = self._gateway.ask("kv/range", {"key": self._name(key)})
        return _entry(found)

    def expect(self, key: str) -> "Expected":
        """Request the value of a key, so that the wait for it can be cancelled."""
        checked_key(key.encode())
        return Expected(self, key)

    def compare_set(
        self,
        key: str,
        value: bytes,
        version: int,
        *,
        lease: Lease | None = None,
        fences: Sequence[Fence] = (),
    ) -> Outcome:
        """Set a key if it has a version; ABSENT if it must not exist."""
        put = self._put(key, value, lease)
        condition = [_has_version(self._name(key), version)]
        present, revision = self._change(key, put, condition, fences)
        if revision:
            return Outcome(True, Entry(value, revision))
        return Outcome(False, present)

    def _change(
        self,
        key: str,
        put: dict[str, Any],
        condition: list[dict[str, Any]],
        fences: Sequence[Fence],
    ) -> tuple[Entry | None, int]:
        """Put a key under a condition: the value if it fails, and the revision."""
        names = [self._name(fence.key) for fence in checked_fences(fences)]
        held = [_has_version(n, f.version) for n, f in zip(names, fences, strict=True)]
        transaction = {
            "compare": condition + held,
            "success": [{"request_put": put}],
            "failure": [{"request_range": {"key": n}} for n in (put["key"], *names)],
        }
        found = _unless_expired(self._gateway, "kv/txn", transaction, Repeat.NEVER)
        if found.get("succeeded"):
            return None, int(found["header"]["revision"])
        entry, *others = [_entry(one["response_range"]) for one in found["responses"]]
        for fence, other in zip(fences, others, strict=True):
            present = other.version if other else ABSENT
            if present != fence.version:
                raise fenced(key, fence, present)
        return entry, 0

    def delete(self, key: str, version: int | None = None) -> bool:
        """Delete a key, if it has the version given; return whether it was deleted."""
        name = self._name(key)
        compare = [] if version is None else [_has_version(name, version)]
        transaction = {
            "compare": compare,
            "success": [{"request_delete_range": {"key": name}}],
        }
        found = self._gateway.ask("kv/txn", transaction, Repeat.NEVER)
        answers = [each["response_delete_range"] for each in found.get("responses", [])]
        return any(int(answer.get("deleted", 0)) for answer in answers)

    def entries(self, prefix: str) -> dict[str, Entry]:
        """The keys that start with a prefix, sorted, with their values."""
        return self._list(prefix)[0]

    def watch(self, prefix: str, watcher: Watcher) -> EtcdWatch:
        """Call a watcher for all keys with a prefix, now and at each change."""
        watch = EtcdWatch(
            self._gateway, self._prefix, partial(self._list, prefix), prefix, watcher
        )
        with self._lock:
            self._watches.append(watch)
        return watch

    def lease(self, seconds: float) -> Lease:
        """Begin a lease, which is renewed until it is revoked or this is closed."""
        if not 0 < seconds < math.inf:
            raise ValueError(f"{seconds} s is not a lifetime; pass a number above 0")
        requested = monotonic()
        granted = self._gateway.ask("lease/grant", {"TTL": math.ceil(seconds)})
        lifetime = float(granted["TTL"])
        lease = Lease(int(granted["ID"]), lifetime, requested, self._renew, self._end)
        with self._lock:
            self._leases.append(lease)
        return lease

    def remove(self) -> None:
        """Delete all keys below the prefix."""
        start, end = text(self._prefix), text(after_all(self._prefix))
        self._gateway.ask("kv/deleterange", {"key": start, "range_end": end})

    def close(self) -> None:
        """Carry out all posts, and end all leases and watches."""
        with self._lock:
            leases, self._leases = self._leases, []
            watches, self._watches = self._watches, []
        self._posts.close()
        for watch in watches:
            watch.cancel()
        for lease in leases:
            if not lease.ended:
                lease.revoke()
        self._gateway.close()

    def _name(self, key: str) -> str:
        return text(self._prefix + checked_key(key.encode()))

    def _put(self, key: str, value: bytes, lease: Lease | None) -> dict[str, Any]:
        refuse_large(value, VALUE_BYTES)
        identifier = 0 if lease is None else lease.identifier
        return {"key": self._name(key), "value": text(value), "lease": identifier}

    def _list(self, prefix: str) -> tuple[dict[str, Entry], int]:
        """The keys with a prefix, and the revision of the store that holds them."""
        start = self._prefix + prefix.encode()
        span = {"key": text(start), "range_end": text(after_all(start))}
        found = self._gateway.ask("kv/range", span)
        entries = {
            content(kv["key"]).removeprefix(self._prefix).decode(): _of(kv)
            for kv in found.get("kvs", ())
        }
        return entries, int(found["header"]["revision"])

    def _renew(self, identifier: int) -> bool:
        found = self._gateway.ask("lease/keepalive", {"ID": identifier})
        return int(found.get("result", {}).get("TTL", 0)) > 0

    def _end(self, identifier: int) -> None:
        self._gateway.ask("lease/revoke", {"ID": identifier})


def _has_version(name: str, version: int) -> dict[str, Any]:
    return {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": version}


def _of(kv: dict[str, Any]) -> Entry:
    return Entry(content(kv.get("value")), int(kv["mod_revision"]))


def _entry(found: dict[str, Any]) -> Entry | None:
    return _of(found["kvs"][0]) if found.get("kvs") else None


def _unless_expired(
    gateway: Gateway, path: str, body: dict[str, Any], repeat: Repeat = Repeat.SAFELY
) -> dict[str, Any]:
    try:
        return gateway.ask(path, body, repeat)
    except StoreError as error:
        if "lease not found" in str(error):
            raise LeaseExpired(
                "the lease of this key has expired; begin another"
            ) from None
        raise
