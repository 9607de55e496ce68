"""Files that users name, to be read: regular files and streams, of limited size."""

import codecs
import os
import stat
from pathlib import Path

#: The name of a path that is not a regular file, by the type in its mode.
SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

#: The byte order marks (BOM), each with its encoding; the longer ones come first.
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_open_stream(path: str | Path) -> bool:
    """Whether a path names an open stream, as the shell writes ``<(command)``."""
    text = str(path)
    standard = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
    return text.startswith(("/dev/fd/", "/proc/self/fd/", *standard))


def special(path: str | Path) -> str:
    """The kind of a path, with an article; empty for a regular file or an open stream.

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


def text_of(data: bytes) -> str:
    """The text of a file with LF line ends: UTF-8, or UTF-16 or -32 with a BOM.

    Raises
    ------
    ValueError
        With the first byte that is wrong.
    """
    encoding = next((name for bom, name in _ENCODINGS if data.startswith(bom)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise ValueError(f"byte {error.start} is not {name}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_text(path: str | Path, most: int) -> str:
    """The content of a text file; as :func:`read_bytes` and :func:`text_of`."""
    return text_of(read_bytes(path, most))
