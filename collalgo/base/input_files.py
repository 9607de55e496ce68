"""Files that users name, to be read: regular files and streams, of limited size."""

import os
import stat
from pathlib import Path

#: What a path is if it is not a regular file, by the type in its mode.
SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_open_stream(path: str | Path) -> bool:
    """Whether a path names an open stream, as the shell writes ``<(command)``."""
    text = str(path)
    standard = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
    return text.startswith(("/dev/fd/", "/proc/self/fd/", *standard))


def special(path: str | Path) -> str:
    """What a path is, with an article; empty for a regular file or an open stream.

    Raises
    ------
    OSError
        If there is no such file.
    """
    if is_open_stream(path):
        return ""
    return SPECIAL.get(stat.S_IFMT(os.stat(path).st_mode), "")


def read_bytes(path: str | Path, most: int) -> bytes:
    """The content of a file.

    Parameters
    ----------
    path
        The file. What may make a reader wait or never ends is refused.
    most
        The most bytes that it may have.

    Raises
    ------
    ValueError
        With the reason, to follow the name of the file, if it cannot be read.
    """
    try:
        if kind := special(path):
            raise ValueError(f"it is {kind}; name a file")
        with Path(path).open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def read_text(path: str | Path, most: int) -> str:
    """The content of a text file; as :func:`read_bytes`, and only UTF-8."""
    data = read_bytes(path, most)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
