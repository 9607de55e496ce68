"""Output files: written atomically, and never over a file of another program.

A file is written beside its target and renamed, so a full disk or an interrupt leaves
the existing file unchanged. An existing file is replaced only if it is empty, if
collalgo wrote it in the same format, or by force.

``-`` and names such as ``/dev/stdout`` are streams; output is appended to them. A
symbolic link stays; its target is replaced.
"""

import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from collalgo.errors import OutputError

#: The marker in files whose format has no field for their author.
MARK = "made by collalgo"

#: The name of standard output on a command line.
STANDARD_OUTPUT = "-"

#: The largest file, in bytes, that collalgo writes.
LARGEST = 1 << 30

#: The longest chain of symbolic links.
MOST_LINKS = 40


#: A part of the content of a file.
Piece: TypeAlias = bytes | memoryview


class Format(NamedTuple):
    """A format of output files.

    Attributes
    ----------
    name : str
        The format's name in errors, with an article.
    is_ours : callable
        Whether collalgo wrote a file with these bytes, in this format; an exception
        means no.
    head : int or None
        The number of bytes at the beginning that are enough to tell; None: all, of
        files of at most :data:`LARGEST` bytes.
    """

    name: str
    is_ours: Callable[[bytes], bool]
    head: int | None = None


def marked(name: str) -> Format:
    """A format whose files contain :data:`MARK`."""
    return Format(name, lambda data: MARK.encode() in data)


def of_json(name: str, is_ours: Callable[[Any], bool]) -> Format:
    """A JSON format, recognised by its parsed document."""
    return Format(name, lambda data: is_ours(json.loads(data)))


def check(path: str | Path, kind: Format, *, force: bool = False) -> None:
    """Refuse a target that must not or cannot be written; call it before the work.

    Raises
    ------
    OutputError
        If another program wrote the file, unless ``force``; or if the file cannot be
        written.
    """
    try:
        target = _target(Path(path))
        if not _is_stream(target):
            _check_file(path, target, kind, force)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise _cannot_write(path, error) from None


def write(
    path: str | Path,
    content: str | bytes | Iterable[Piece],
    kind: Format,
    *,
    force: bool = False,
) -> None:
    """Write a file atomically, or append to a stream; content may come in pieces.

    Raises
    ------
    OutputError
        As :func:`check`, or if writing fails; the existing file is then unchanged.
    """
    check(path, kind, force=force)
    data = content.encode() if isinstance(content, str) else content
    pieces = [data] if isinstance(data, bytes) else data
    try:
        target = _target(Path(path))
        if _is_stream(target):
            _append(target, b"".join(pieces))
        else:
            _replace(target, pieces)
    except OSError as error:
        raise _cannot_write(path, error) from None


def is_standard_output(path: str | Path | None) -> bool:
    """Whether a path is standard output, which then carries nothing else."""
    return path is not None and str(path) in (STANDARD_OUTPUT, "/dev/stdout")


def _cannot_write(path: str | Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {path} ({error.strerror or error}), and what was there is "
        "unchanged; see to it, or name another file"
    )


def _target(path: Path) -> Path:
    """The target of a path after its symbolic links; it need not exist."""
    for _ in range(MOST_LINKS):
        if _is_named_stream(path) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_named_stream(path: Path) -> bool:
    """Whether a path names an open stream, perhaps a file that the shell opened."""
    text = str(path)
    names = (STANDARD_OUTPUT, "/dev/stdout", "/dev/stderr")
    return text in names or text.startswith(("/dev/fd/", "/proc/"))


def _is_stream(target: Path) -> bool:
    is_special = target.exists() and not target.is_file() and not target.is_dir()
    return _is_named_stream(target) or is_special


def _check_file(path: str | Path, target: Path, kind: Format, force: bool) -> None:
    folder = target.parent
    if target.is_dir():
        raise OutputError(f"{path} is a folder; name a file in it")
    if not folder.is_dir():
        raise OutputError(
            f"cannot write {path}: there is no folder {folder}; make it, or name "
            "another"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot write {path}: user {os.geteuid()} may write no files in {folder}; "
            "name another folder"
        )
    if target.exists() and not force:
        _check_existing(path, target, kind)


def _check_existing(path: str | Path, target: Path, kind: Format) -> None:
    status = target.stat()
    instead = "name another file, or replace it by --force (force=True in Python)"
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise OutputError(
            f"{path} is there and may not be written "
            f"(mode {stat.S_IMODE(status.st_mode):o}); {instead}"
        )
    too_large = kind.head is None and status.st_size > LARGEST
    if too_large or not _recognised(target, kind):
        raise OutputError(
            f"{path} is there and is not {kind.name} that collalgo has written "
            f"({status.st_size} bytes); {instead}"
        )


def _recognised(target: Path, kind: Format) -> bool:
    with target.open("rb") as file:
        data = file.read(-1 if kind.head is None else kind.head)
    with suppress(Exception):  # a file of another program may hold anything
        return not data or kind.is_ours(data)
    return False


def _append(target: Path, data: bytes) -> None:
    if is_standard_output(target):
        sys.stdout.flush()
    if str(target) == STANDARD_OUTPUT:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    # Appended: the shell may have redirected the stream to a file with content.
    with target.open("ab") as stream:
        stream.write(data)


def _replace(target: Path, pieces: Iterable[Piece]) -> None:
    """Replace a file atomically; the new file keeps the mode of the old one."""
    partial = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.partial")
    try:
        with partial.open("xb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())  # reports a full disk before the rename
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
