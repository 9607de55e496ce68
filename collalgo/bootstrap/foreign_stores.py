"""Boards, where processes leave messages for each other: folders and stores of others.

Who can read a board knows the secret of the job that meets there.
"""

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from collalgo.base.polling import awaited
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.errors import BootstrapError

#: Seconds between two looks for a message that is not there yet.
LOOK = 0.01

#: Seconds that a server has to answer.
ANSWER_SECONDS = 10.0

#: The folder of messages inside the folder that a user names.
INSIDE = "collalgo-meeting"

#: The file in it that says that a rank has made the folder that the user names.
MADE = "made-by-a-rank"

#: The key that gets its value only when all ranks of a job have come.
LAST = "first"

INSTEAD = "choose a folder that does not exist yet"


class KeyValueStore(Protocol):
    """Where processes leave messages for each other, each under a key of its own."""

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""


class Folder:
    """A folder as a board: a file for each key, readable by its owner only.

    The files are in a private folder inside the one that is named, so that nothing but
    messages of ranks is ever removed. The folder that is named goes too if a rank has
    made it.

    Raises
    ------
    BootstrapError
        If there is something else of this name, or anything else in the folder; if
        somebody else owns it, or others may write to it.
    """

    def __init__(self, path: Path):
        self._named = path
        self._path = path / INSIDE
        self._written: set[Path] = set()
        self._known: set[Path] = set()
        try:
            is_new = _made(path)
            _refuse_unfit(path)
            _refuse_others(path)
            _made(self._path)
            _refuse_unfit(self._path)
            if is_new:
                (self._path / MADE).touch(mode=0o600)
        except OSError as error:
            raise BootstrapError(f"cannot meet in {path} ({error})") from None
        if self._file(LAST).exists():  # so a job has met, to which this does not belong
            raise _taken(str(path), LAST)

    def _file(self, key: str) -> Path:
        return self._path / key.replace("/", "-")

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""
        file = self._file(key)
        partial = file.with_suffix(f".{secrets.token_hex(8)}")
        try:
            partial.touch(mode=0o600, exist_ok=False)
            partial.write_bytes(value)
            os.link(partial, file)  # all at once, and not over another
        except FileExistsError:
            raise _taken(str(self._named), key) from None
        except OSError as error:
            raise BootstrapError(f"cannot write {file} ({error})") from None
        finally:
            with suppress(OSError):
                partial.unlink()
        self._written.add(file)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        late = BootstrapError(
            f"nobody has written {self._file(key)} in {timeout:g} s; see whether all "
            "ranks were started with this folder"
        )
        found = awaited(lambda: self._look(key), timeout, LOOK, late)
        self._known.add(self._file(key))
        return found

    def _look(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._file(key).read_bytes()
        return None

    def remove(self) -> None:
        """Remove what this process has written or read."""
        self._clear(self._written | self._known)

    def take_back(self) -> None:
        """Remove what this process has written."""
        self._clear(self._written)

    def _clear(self, files: Iterable[Path]) -> None:
        """Remove messages; after the last one the folders too that ranks have made."""
        mark = self._path / MADE
        with suppress(OSError):
            for file in files:
                file.unlink(missing_ok=True)
            if all(path == mark for path in self._path.iterdir()):
                is_ours = mark.exists()
                mark.unlink(missing_ok=True)
                self._path.rmdir()
                if is_ours:
                    self._named.rmdir()


def _made(folder: Path) -> bool:
    """Make a folder unless it is there: whether it was not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _refuse_unfit(folder: Path) -> None:
    """Refuse what is no folder, or one to which others may write.

    Raises
    ------
    BootstrapError
        If so.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        is_link = stat.S_ISLNK(status.st_mode)
        what = "a symbolic link" if is_link else "a file"
        raise BootstrapError(f"cannot meet in {folder}, which is {what}; {INSTEAD}")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise BootstrapError(
            f"cannot meet in {folder}, of user {status.st_uid} with mode "
            f"{stat.S_IMODE(status.st_mode):o}: it must belong to the user of this "
            f"process ({os.geteuid()}), and nobody else may write to it; {INSTEAD}"
        )


def _refuse_others(folder: Path) -> None:
    """Refuse a folder with anything but messages of ranks in it.

    Raises
    ------
    BootstrapError
        If so.
    """
    others = sorted({path.name for path in folder.iterdir()} - {INSIDE})
    if others:
        raise BootstrapError(
            f"cannot meet in {folder}, which holds other files ({len(others)}, as "
            f"{others[0]!r}); {INSTEAD}"
        )


class EtcdPrefix:
    """A prefix of etcd as a board."""

    def __init__(self, store: Etcd, where: str):
        self._store = store
        self._where = where
        self._written: set[str] = set()
        self._known: set[str] = set()

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""
        if self._store.compare_set(key, None, value) != value:
            raise _taken(self._where, key)
        self._written.add(key)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        found = self._store.get(key, timeout)
        self._known.add(key)
        return found

    def remove(self) -> None:
        """Remove what this process has written or read."""
        self._clear(self._written | self._known)

    def take_back(self) -> None:
        """Remove what this process has written."""
        self._clear(self._written)

    def _clear(self, keys: Iterable[str]) -> None:
        with suppress(BootstrapError):
            for key in keys:
                self._store.delete(key)


class TorchStore:
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


class HorovodStore:
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
        f"another job has met in {where}, which runs or has crashed, or the same rank "
        f"twice ({key} is there); choose a place that does not exist yet, or remove it "
        "if no job uses it"
    )
