"""Whether a file exists, or nobody knows."""

from pathlib import Path


def exists(path: Path) -> bool:
    """Whether a file or folder exists.

    ``Path.exists`` of CPython 3.14 says no after any error, as that of a file system
    that does not answer; who then makes the file overwrites what is there.

    Raises
    ------
    OSError
        If that cannot be found out.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
