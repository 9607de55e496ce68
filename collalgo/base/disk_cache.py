"""Results that take long to compute, kept on disk as small files for later runs.

The folder is ``collalgo`` in the user's cache directory (``XDG_CACHE_HOME``, else
``~/.cache``), or that of ``COLLALGO_CACHE``; ``COLLALGO_CACHE=off`` keeps nothing.

A file that is damaged, too large or cannot be read counts as missing, and one that
cannot be written is left out. Any number of processes may share the folder: a file is
written beside its name and renamed. If the folder of ``COLLALGO_CACHE`` cannot be
written, rank 0 logs a warning.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from collalgo.base import owned
from collalgo.base.digest import blake2b
from collalgo.base.environment import CACHE
from collalgo.errors import CollalgoError

#: The value of ``COLLALGO_CACHE`` that keeps nothing.
OFF = "off"

#: Seconds that a process waits for others that compute the same result, and between two
#: attempts: one that is paused must not delay them for long.
TURN_SECONDS, POLL_SECONDS = 2.0, 0.005

#: The most files of a kind, of which the oldest quarter is deleted beyond that, and
#: the most bytes of each, unless the kind has larger ones.
MOST_FILES, LARGEST = 1024, 1 << 16


def folder() -> Path:
    """The folder of all kept results; the default one if none are kept."""
    return Path(_folder())


def _folder() -> str:
    """The same as text: a first call reads one file, sooner than paths are made."""
    given = CACHE.given()
    return given if given and given != OFF else _default_folder()


def keeps() -> bool:
    """Whether results are kept."""
    return CACHE.given() != OFF


def default_folder() -> Path:
    """The folder of this user, regardless of ``COLLALGO_CACHE``."""
    return Path(_default_folder())


def _default_folder() -> str:
    root = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")
    return f"{root or f'{home or Path.home()}/.cache'}/collalgo"


class _Report:
    """The warning that nothing is kept: once, by the process that reports."""

    is_wanted = is_done = False
    problem = ""

    def add(self, error: Exception) -> None:
        """Note the reason why a result is not kept."""
        if CACHE.given():
            self.problem = self.problem or str(error)
            self.log()

    def log(self) -> None:
        """Log the first reason, if there is one, and this process reports."""
        if not self.problem or self.is_done or not self.is_wanted:
            return
        from logging import getLogger  # here, as few processes need it

        self.is_done = True
        getLogger("collalgo").warning(
            "%s=%s: results are not kept there (%s), so that each start computes them "
            "again; name a folder that can be written, or %s",
            CACHE.name,
            CACHE.given(),
            self.problem,
            OFF,
        )


_report = _Report()


def report_problems() -> None:
    """Let this process log if nothing can be kept: rank 0 of a job."""
    _report.is_wanted = True
    _report.log()


@contextmanager
def reporting() -> Iterator[None]:
    """Keep a result; a folder that cannot be written is reported, and not raised."""
    try:
        yield
    except (CollalgoError, OSError, RuntimeError) as error:
        _report.add(error)


def recall(kind: str, key: str, largest: int = LARGEST) -> str | None:
    """The kept result of a key; None if the cache lacks it.

    Parameters
    ----------
    kind
        The name of the subfolder.
    key
        The inputs of the result.
    largest
        The most bytes of a file of this kind.
    """
    if not keeps():
        return None
    with suppress(OSError, RuntimeError, ValueError):  # no home, no UTF-8
        data = _read(_path(kind, key), largest)
        seal, _, content = data.partition(b"\n")
        if len(data) <= largest and seal == _seal(key, content):
            return content.decode()
    return None


def keep(kind: str, key: str, content: str, largest: int = LARGEST) -> None:
    """Keep the result of a key, if it is small and the folder can be written."""
    data = content.encode()
    data = _seal(key, data) + b"\n" + data
    if not keeps() or len(data) > largest:
        return
    with reporting():
        path = Path(_path(kind, key))
        owned.make_folder(path.parent)
        partial = path.with_name(f"{path.name}.{os.urandom(8).hex()}.partial")
        try:
            with open(partial, "xb", opener=owned.opener) as file:
                file.write(data)  # not synced: a damaged file counts as missing
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        _make_room(path.parent, MOST_FILES)


@contextmanager
def turn(kind: str, key: str) -> Iterator[None]:
    """Wait for the turn of this process to compute a result, for a short time.

    The ranks of a host need the same results at once. The first computes them; the
    others find them kept, when it is their turn.
    """
    lock = -1
    with suppress(CollalgoError, OSError, RuntimeError):
        beside = Path(_path(kind, f"turn {key}"))
        lock = _locked(beside) if keeps() else -1
    try:
        yield
    finally:
        if lock >= 0:
            with suppress(OSError):
                beside.unlink(missing_ok=True)  # those that wait have it open
            os.close(lock)


def _locked(path: Path) -> int:
    """Lock a new file: its descriptor, or -1 if the wait takes too long."""
    owned.make_folder(path.parent)
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    lock, end = os.open(path, flags, 0o600), time.monotonic() + TURN_SECONDS
    try:
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            time.sleep(POLL_SECONDS)
    except BaseException:  # as of file systems without locks
        os.close(lock)
        raise
    os.close(lock)
    return -1


def _read(path: str, largest: int) -> bytes:
    """The content of a file of this user; OSError if it is another's, or no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a file of this user")
        return file.read(largest + 1)


def _path(kind: str, key: str) -> str:
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    return f"{_folder()}/{kind}/{digest}"


def _seal(key: str, content: bytes) -> bytes:
    """The digest that ties a content to its key, and shows damage."""
    seal = blake2b(content, digest_size=16, key=blake2b(key.encode()).digest())
    return seal.hexdigest().encode()


def _make_room(files: Path, most: int) -> None:
    """Delete the oldest quarter of the files if there are too many."""
    with os.scandir(files) as entries:
        found = list(entries)
    if len(found) > most:
        oldest = sorted(_dated(found))[: len(found) - most * 3 // 4]
        for _, path in oldest:
            with suppress(OSError):  # another process may delete them, too
                Path(path).unlink()


def _dated(entries: list[os.DirEntry[str]]) -> Iterator[tuple[float, str]]:
    """The times of change of files that are still there, with their paths."""
    for entry in entries:
        with suppress(OSError):
            yield entry.stat().st_mtime, entry.path
