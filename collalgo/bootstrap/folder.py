"""A folder as a store: a file for each key, for processes that share a file system."""

import os
import secrets
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from collalgo.base import owned
from collalgo.base.existence import exists
from collalgo.base.polling import awaited
from collalgo.errors import BootstrapError

#: Seconds between two checks for a file that does not exist yet.
POLL_SECONDS = 0.01

#: The private folder inside the one that the user names.
INSIDE = "collalgo-rendezvous"

#: The files in it that mark folders as made by a rank, with a number at the end: 0 for
#: the named folder, 1 for its parent and so on.
MADE = "made-by-a-rank-"

#: The file in it with the key that two processes have set.
TWICE = "started-twice"

#: The key that is set only when all ranks of a job have connected.
LAST = "first"

INSTEAD = "choose a folder that does not exist yet"


class Folder:
    """A folder as an :class:`~.store.protocol.ExchangeStore`, readable by its owner.

    The files are in a private folder inside the named one, so only files of ranks are
    ever removed. The named folder and its parents are removed, too, if ranks have made
    them and they are empty. A process that can read the folder knows the secret of the
    job.

    Raises
    ------
    BootstrapError
        If the path is not a folder, the folder holds other files, another user owns it,
        or others may write to it.
    """

    def __init__(self, path: Path):
        self._named = path
        self._path = path / INSIDE
        self._written: set[Path] = set()
        self._known: set[Path] = set()
        self._has_twin = False  # which this process was told
        self._enter()
        if exists(self._file(LAST)):  # of another job, whose ranks have connected
            raise taken(str(path), LAST)

    def _enter(self) -> None:
        """Make the folders unless they exist, and mark those that were made."""
        made: list[int] = []
        try:
            _make(self._named, made)
            _refuse_unfit(self._named)
            _refuse_others(self._named)
            make_private(self._path)
            for level in made:
                (self._path / f"{MADE}{level}").touch(mode=0o600)
        except OSError as error:
            _remove(self._named, made)
            raise BootstrapError(f"cannot connect in {self._named} ({error})") from None
        except BootstrapError:
            _remove(self._named, made)
            raise

    def _file(self, key: str) -> Path:
        return self._path / key.replace("/", "-")

    def set(self, key: str, value: bytes) -> None:
        """Set a key that does not exist yet."""
        file = self._file(key)
        partial = file.with_suffix(f".{secrets.token_hex(8)}")
        try:
            _write(partial, value, "xb")
            os.link(partial, file)  # all at once, and not over another
        except FileExistsError:
            self._has_twin = True
            with suppress(OSError):  # it stays for ranks that come later
                _write(self._path / TWICE, key.encode(), "wb")
            raise taken(str(self._named), key) from None
        except OSError as error:
            raise BootstrapError(f"cannot write {file} ({error})") from None
        finally:
            with suppress(OSError):
                partial.unlink()
        self._written.add(file)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key, at most ``timeout`` seconds."""
        late = BootstrapError(
            f"no rank has written {self._file(key)} within {timeout:g} s; check that "
            "all ranks were started with this folder"
        )
        found = awaited(lambda: self._read_key(key), timeout, POLL_SECONDS, late)
        self._known.add(self._file(key))
        return found

    def _read_key(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            if not self._has_twin:
                raise taken(str(self._named), (self._path / TWICE).read_text())
        with suppress(FileNotFoundError):
            return self._file(key).read_bytes()
        return None

    def remove(self) -> None:
        """Remove the files that this process has written or read."""
        self._clear(self._written | self._known)

    def take_back(self) -> None:
        """Remove the files that this process has written."""
        self._clear(self._written)

    def close(self) -> None:
        """Do nothing: a folder holds no connection."""

    def _clear(self, files: Iterable[Path]) -> None:
        """Remove files; with the last one the folders too that ranks have made."""
        with suppress(OSError):
            for file in files:
                file.unlink(missing_ok=True)
            left = list(self._path.iterdir())
            if all(path.name.startswith(MADE) for path in left):
                for mark in left:
                    mark.unlink(missing_ok=True)
                self._path.rmdir()
                _remove(self._named, [int(m.name.removeprefix(MADE)) for m in left])


def _write(file: Path, value: bytes, mode: str) -> None:
    """Write a file that permits its owner only."""
    with open(file, mode, opener=owned.private) as opened:
        opened.write(value)


def taken(where: str, key: str) -> BootstrapError:
    """The error of a job that finds keys of another one."""
    return BootstrapError(
        f"another job has used {where}, which runs or has crashed, or the same rank "
        f"was started twice ({key} exists); choose one that does not exist yet, or "
        "remove it if no job uses it"
    )


def make_private(folder: Path) -> None:
    """Make a folder and its parents unless it exists.

    Raises
    ------
    BootstrapError
        If it is not a folder, another user owns it, or others may write to it.
    """
    _make(folder, [])
    _refuse_unfit(folder)


def _make(folder: Path, made: list[int]) -> None:
    """Make a folder and its parents, and note which: 0 is the folder, 1 its parent."""
    level, missing = 0, []
    while not exists(folder):
        missing.append((level, folder))
        level, folder = level + 1, folder.parent
    for level, each in reversed(missing):
        with suppress(FileExistsError):  # a link, which is refused
            if owned.make_folder(each, 0o777 if level else owned.OF_FOLDER):
                made.append(level)


def _remove(folder: Path, made: Collection[int]) -> None:
    """Remove a folder and its parents if they were made here and are empty."""
    with suppress(OSError):
        for level in count():
            if level in made:
                folder.rmdir()
            elif level >= min(made, default=0):  # below it nothing was made
                return
            folder = folder.parent


def _refuse_unfit(folder: Path) -> None:
    """Raise BootstrapError unless it is a folder that only this user can write to."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        is_link = stat.S_ISLNK(status.st_mode)
        what = "a symbolic link" if is_link else "a file"
        raise BootstrapError(f"cannot connect in {folder}, which is {what}; {INSTEAD}")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise BootstrapError(
            f"cannot connect in {folder}, of user {status.st_uid} with mode "
            f"{stat.S_IMODE(status.st_mode):o}: it must belong to the user of this "
            f"process ({os.geteuid()}), and no other user may write to it; {INSTEAD}"
        )


def _refuse_others(folder: Path) -> None:
    """Raise BootstrapError if a folder holds anything but files of ranks."""
    others = sorted({path.name for path in folder.iterdir()} - {INSIDE})
    if others:
        raise BootstrapError(
            f"cannot connect in {folder}, which holds other files ({len(others)}, as "
            f"{others[0]!r}); {INSTEAD}"
        )
