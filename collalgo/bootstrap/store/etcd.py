"""A store that somebody keeps already: etcd, by the HTTP gateway of its version 3."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeVar

from collalgo.base.polling import awaited
from collalgo.bootstrap.store.client import ANSWER_SECONDS, StoreError
from collalgo.errors import BootstrapError

T = TypeVar("T")

#: The port of etcd.
PORT = 2379

#: Seconds between two looks for a key that is not there yet.
LOOK = 0.05

#: Seconds after which the leased keys of a process go that has ended.
LEASE = 3

#: Where ``etcdctl`` finds certificates too.
CERTIFICATES = {
    "ca_cert": "ETCDCTL_CACERT",
    "cert_cert": "ETCDCTL_CERT",
    "cert_key": "ETCDCTL_KEY",
}


class Etcd:
    """Keys and values below a prefix in etcd, by the verbs of the embedded store.

    With certificates (``ETCDCTL_CACERT``, ``ETCDCTL_CERT``, ``ETCDCTL_KEY``) it is
    asked by HTTPS. Times are in seconds.

    Parameters
    ----------
    members
        Where etcd is: pairs of host and port, of which the first that answers is taken.
    prefix
        Before all keys.

    Raises
    ------
    BootstrapError
        Without etcd3gw (``pip install 'collalgo[etcd]'``), or if no member answers.
    """

    def __init__(self, members: Sequence[tuple[str, int]], prefix: str):
        self._prefix = prefix.strip("/") + "/"
        self._lease: Any = None
        self._closed = Event()
        self._client = _connect(members)

    def set(self, key: str, value: bytes, *, leased: bool = False) -> None:
        """Give a key a value."""
        lease = self._leased() if leased else None
        self._ask(self._client.put, self._prefix + key, value, lease)

    def get(self, key: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """The value of a key, as soon as it has one.

        Raises
        ------
        StoreError
            If it has none in time.
        """
        late = StoreError(f"nobody has set {key} in {timeout:g} s")
        return awaited(lambda: self._look(key), timeout, LOOK, late)

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has, at first 0: the new one."""
        while True:
            before = self._look(key)
            after = int(before or 0) + amount
            if self._replaced(key, before, b"%d" % after):
                return after

    def compare_set(self, key: str, expected: bytes | None, desired: bytes) -> bytes:
        """Set a key if it has the value expected, or none: what it has then."""
        if self._replaced(key, expected, desired):
            return desired
        return self._look(key) or b""

    def delete(self, key: str) -> bool:
        """Delete a key: whether it was there."""
        return bool(self._ask(self._client.delete, self._prefix + key))

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin so."""
        found = self._ask(self._client.get_prefix, self._prefix + prefix)
        names = [about["key"].decode() for _, about in found]
        return sorted(name.removeprefix(self._prefix) for name in names)

    def remove(self) -> None:
        """Delete all keys below the prefix."""
        self._ask(self._client.delete_prefix, self._prefix)

    def close(self) -> None:
        """Let go of all that is leased."""
        self._closed.set()
        if self._lease is not None:
            with suppress(StoreError):
                self._ask(self._lease.revoke)
        self._client.session.close()

    def _look(self, key: str) -> bytes | None:
        found = self._ask(self._client.get, self._prefix + key)
        return bytes(found[0]) if found else None

    def _replaced(self, key: str, before: bytes | None, after: bytes) -> bool:
        path = self._prefix + key
        if before is None:
            return bool(self._ask(self._client.create, path, after))
        return bool(self._ask(self._client.replace, path, before, after))

    def _leased(self) -> Any:
        """The lease of this process, which a thread renews."""
        if self._lease is None:
            self._lease = self._ask(self._client.lease, LEASE)
            Thread(target=self._renew, name="collalgo lease", daemon=True).start()
        return self._lease

    def _renew(self) -> None:
        while not self._closed.wait(LEASE / 3):
            with suppress(StoreError):
                self._ask(self._lease.refresh)

    @staticmethod
    def _ask(question: Callable[..., T], *words: Any) -> T:
        from etcd3gw.exceptions import Etcd3Exception

        try:
            return question(*words)
        except Etcd3Exception as error:
            raise StoreError(f"etcd cannot be asked ({error})") from None


def _connect(members: Sequence[tuple[str, int]]) -> Any:
    """A client of the first member that answers."""
    try:
        from etcd3gw.client import Etcd3Client
        from etcd3gw.exceptions import Etcd3Exception
    except ImportError as error:
        raise BootstrapError(
            f"to meet over etcd, etcd3gw is needed ({error}); install it with: "
            "pip install collalgo[etcd]"
        ) from None
    given = {
        name: os.environ[variable]
        for name, variable in CERTIFICATES.items()
        if variable in os.environ
    }
    settings: dict[str, Any] = {"timeout": ANSWER_SECONDS, "api_path": "/v3/", **given}
    problems = []
    for host, port in members:
        client = Etcd3Client(host, port, "https" if given else "http", **settings)
        try:
            client.status()
        except Etcd3Exception as error:
            problems.append(f"{host}:{port} ({error})")
        else:
            return client
    raise StoreError(f"etcd does not answer at {'; '.join(problems)}")
