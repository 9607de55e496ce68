"""Files and folders of ours, which their owner can use whatever the umask.

With ``umask 777``, or another one without the bits of the owner, the processes of a job
could not read what another one has written.
"""

import os
import stat
from pathlib import Path

from collalgo.base.existence import exists

#: The permissions of their owner.
OF_FOLDER, OF_FILE = 0o700, 0o600


def make_folder(folder: Path, mode: int = 0o777) -> bool:
    """Make a folder and its parents, unless it exists: whether it was made.

    Raises
    ------
    OSError
        If it cannot be made, for instance as a file has its name.
    """
    if not exists(folder.parent):
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    found = stat.S_IMODE(folder.stat().st_mode)
    if found & OF_FOLDER != OF_FOLDER:
        folder.chmod(found | OF_FOLDER)
    return True


def opener(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file, as ``open(..., opener=opener)``; a new one permits its owner."""
    if not flags & os.O_CREAT:
        return os.open(path, flags)
    try:
        descriptor = os.open(path, flags | os.O_EXCL, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, mode)
    try:
        _permit_owner(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _permit_owner(descriptor: int) -> None:
    status = os.fstat(descriptor)
    found = stat.S_IMODE(status.st_mode)
    if found & OF_FILE != OF_FILE and status.st_uid == os.geteuid():
        os.fchmod(descriptor, found | OF_FILE)


def private(path: str, flags: int) -> int:
    """Open a file; a new one permits its owner only."""
    return opener(path, flags, OF_FILE)
