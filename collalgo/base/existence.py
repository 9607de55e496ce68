"""Whether a file exists; an error if that is unknown."""

from pathlib import Path


def exists(path: Path) -> bool:
    """Whether a file or folder exists.

    ``Path.exists`` of CPython 3.14 returns False after any error, as that of a file
    system that does not answer; a caller that then makes the file overwrites it.

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
