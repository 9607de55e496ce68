"""A secret that the processes of one user share, in a file that only they can read.

It becomes part of the name of the rendezvous of a host, which another user could
otherwise derive from the variables of the launcher, and occupy.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from collalgo.base import disk_cache, owned
from collalgo.base.existence import exists

#: Bytes of the secret.
SECRET_BYTES = 32


@cache
def user_secret() -> bytes:
    """The secret of this user, made at its first use; empty if no folder is private."""
    for folder in _folders():
        with suppress(OSError):
            return _kept_in(folder)
    _warn_of_no_folder()
    return b""


def _warn_of_no_folder() -> None:
    import logging  # here, as few processes need it and all would wait for it

    logging.getLogger("collalgo").warning(
        "no folder is private (%s): another user could occupy the rendezvous name "
        "of this job; set HOME or XDG_CACHE_HOME",
        " and ".join(map(str, _folders())),
    )


def _folders() -> Iterator[Path]:
    """Folders for the secret, the preferred one first."""
    with suppress(RuntimeError):  # there is no home
        yield disk_cache.default_folder() / "private"
    import tempfile  # here, as its compression modules delay the start of each rank

    yield Path(tempfile.gettempdir()) / f"collalgo-{os.geteuid()}"


def _kept_in(folder: Path) -> bytes:
    """The secret in a folder; OSError if the folder or the file is not private."""
    owned.make_folder(folder, owned.OF_FOLDER)
    _check_private(folder.lstat(), folder)
    file = folder / "secret"
    if not exists(file):
        _write(file)
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as opened:
        _check_private(os.fstat(descriptor), file)
        found = opened.read(SECRET_BYTES + 1)
    if len(found) != SECRET_BYTES:
        raise OSError(f"{file} has {len(found)} bytes, not {SECRET_BYTES}")
    return found


def _check_private(status: os.stat_result, path: Path) -> None:
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{path} is not private")
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise OSError(f"{path} is neither a folder nor a file")


def _write(file: Path) -> None:
    """Make a secret; of several processes that do so at once, the first one does."""
    partial = file.with_suffix(f".{os.urandom(8).hex()}")
    try:
        with open(partial, "xb", opener=owned.private) as made:
            made.write(os.urandom(SECRET_BYTES))
        with suppress(FileExistsError):
            os.link(partial, file)
    finally:
        partial.unlink(missing_ok=True)
