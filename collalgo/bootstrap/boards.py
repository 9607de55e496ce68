"""Boards, where processes leave messages for each other: folders and stores of others.

Who can read a board knows the secret of the job that meets there.
"""

import os
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from collalgo.bootstrap.polling import awaited
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.errors import BootstrapError

#: Seconds between two looks for a message that is not there yet.
LOOK = 0.01

#: Seconds that a server has to answer.
ANSWER_SECONDS = 10.0


class Board(Protocol):
    """Where processes leave messages for each other, each under a key of its own."""

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""


class Folder:
    """A folder as a board: a file for each key, readable by its owner only.

    Raises
    ------
    BootstrapError
        If somebody else owns the folder, or others may write to it.
    """

    def __init__(self, path: Path):
        self._path = path
        self._written: list[Path] = []
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat()
        except OSError as error:
            raise BootstrapError(f"cannot meet in {path} ({error})") from None
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise BootstrapError(
                f"{path} must belong to the user of this process, and nobody else may "
                "write to it; choose a folder that does not exist yet"
            )

    def _file(self, key: str) -> Path:
        return self._path / key.replace("/", "-")

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""
        file = self._file(key)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_bytes(value)
        try:
            os.link(partial, file)  # all at once, and not over another
        except FileExistsError:
            raise _taken(str(self._path), key) from None
        finally:
            partial.unlink()
        self._written.append(file)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        late = BootstrapError(
            f"nobody has written {self._file(key)} in {timeout:g} s; see whether all "
            "ranks were started with this folder"
        )
        return awaited(lambda: self._look(key), timeout, LOOK, late)

    def _look(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._file(key).read_bytes()
        return None

    def remove(self) -> None:
        """Remove all that is there."""
        shutil.rmtree(self._path, ignore_errors=True)

    def take_back(self) -> None:
        """Remove what this process has written."""
        with suppress(OSError):
            while self._written:
                self._written.pop().unlink()
            self._path.rmdir()


class EtcdBoard:
    """A prefix of etcd as a board."""

    def __init__(self, store: Etcd, where: str):
        self._store = store
        self._where = where
        self._written: list[str] = []

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""
        if self._store.compare_set(key, None, value) != value:
            raise _taken(self._where, key)
        self._written.append(key)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        return self._store.get(key, timeout)

    def remove(self) -> None:
        """Remove all that is there."""
        with suppress(BootstrapError):
            self._store.remove()

    def take_back(self) -> None:
        """Remove what this process has written."""
        with suppress(BootstrapError):
            while self._written:
                self._store.delete(self._written.pop())


class TorchBoard:
    """A store of torch as a board."""

    def __init__(self, store: Any):
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self._store.set(f"collalgo/{key}", value)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        self._store.wait([f"collalgo/{key}"], timedelta(seconds=timeout))
        return bytes(self._store.get(f"collalgo/{key}"))


class HorovodBoard:
    """The server of keys and values that horovodrun keeps for its ranks, as a board.

    Values are put and got by HTTP, at ``/SCOPE/KEY``.
    """

    def __init__(self, address: str, port: int):
        self._url = f"http://{address}:{port}/collalgo/"

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self._ask(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        late = BootstrapError(
            f"horovodrun knows no {key} after {timeout:g} s; see whether all ranks "
            "have come up"
        )
        return awaited(lambda: self._ask(key), timeout, LOOK, late)

    def _ask(self, key: str, value: bytes | None = None) -> bytes | None:
        """Put a value, or get the one there is."""
        url = self._url + key.replace("/", "-")
        request = Request(url, value, method="GET" if value is None else "PUT")
        try:
            with urlopen(request, timeout=ANSWER_SECONDS) as answer:
                found: bytes = answer.read()
                return found
        except HTTPError as error:
            if error.code == 404 and value is None:
                return None
            raise BootstrapError(f"horovodrun says at {url}: {error}") from None
        except URLError as error:
            raise BootstrapError(
                f"horovodrun does not answer at {url} ({error.reason})"
            ) from None


def _taken(where: str, key: str) -> BootstrapError:
    return BootstrapError(
        f"another job has met in {where}, or the same rank twice ({key}); choose a "
        "place that does not exist yet, or remove it"
    )
