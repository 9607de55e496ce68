"""Output files: written atomically, and never over a file of another program.

A file is written beside its target and renamed, so a full disk or an interrupt leaves
the existing file unchanged. An existing file is replaced only if it is empty, if
collalgo wrote it in the same format and it was not changed since, or by force.

``-``, ``/dev/null`` and names such as ``/dev/stdout`` are streams; output is appended
to them. A symbolic link stays; its target is replaced.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from collalgo.base import owned, seal
from collalgo.base.existence import exists
from collalgo.base.input_files import is_open_stream, special
from collalgo.errors import OutputError

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
    magic : bytes
        What the files begin with, if they hold a checksum of their own and are not
        sealed, as they may be too large to be read whole.
    has_force : bool
        Whether the writer can pass ``force``.
    endings : tuple of str
        The suffixes of the files' names, the usual one first; empty for any.
    """

    name: str
    magic: bytes = b""
    has_force: bool = True
    endings: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The mark by which a file is recognised; see :mod:`collalgo.base.seal`."""
        return seal.mark_of(self.name)


def check(path: str | Path, kind: Format, *, force: bool = False) -> None:
    """Refuse a target that must not or cannot be written; call it before the work.

    Raises
    ------
    OutputError
        If another program wrote the file or it was changed since, unless ``force``; if
        the file cannot be written; or if its suffix is that of another format.
    """
    try:
        target = _target(Path(path))
        if _is_stream(target):
            _check_stream(path, target)
        else:
            _check_suffix(Path(path), kind)
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
    """Seal and write a file atomically, or append it to a stream.

    The content of a format with a magic may come in pieces.

    Raises
    ------
    OutputError
        As :func:`check`, or if writing fails; the existing file is then unchanged.
    """
    check(path, kind, force=force)
    data = content.encode() if isinstance(content, str) else content
    if isinstance(data, bytes):
        data = [data if kind.magic else seal.sealed(data, kind.name)]
    try:
        target = _target(Path(path))
        if _is_stream(target):
            _append(target, b"".join(data))
        else:
            _replace(target, data)
    except OSError as error:
        raise _cannot_write(path, error) from None


def make_folder(folder: Path) -> None:
    """Make a folder for output, and its parents, unless it exists.

    Raises
    ------
    OutputError
        If it cannot be made, for instance as a file has its name.
    """
    try:
        owned.make_folder(folder)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder {folder} ({error.strerror}); name another folder"
        ) from None


def ending(path: Path) -> str:
    """The suffix of a file's name, without its dot and in lower case."""
    return path.suffix.removeprefix(".").lower()


def is_standard_output(path: str | Path | None) -> bool:
    """Whether a path is standard output, which then carries nothing else."""
    return path is not None and str(path) in (STANDARD_OUTPUT, "/dev/stdout")


def _cannot_write(path: str | Path, error: OSError) -> OutputError:
    if _is_stream(Path(path)):
        name = "standard output" if is_standard_output(path) else path
        return OutputError(f"cannot write to {name}: {error.strerror or error}")
    return OutputError(
        f"cannot write {path} ({error.strerror or error}), and a former file is "
        "unchanged; free its folder for writing, or name another file"
    )


def _target(path: Path) -> Path:
    """The target of a path after its symbolic links; it need not exist."""
    for _ in range(MOST_LINKS):
        if _is_stream(path) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_stream(path: Path) -> bool:
    return str(path) in (STANDARD_OUTPUT, os.devnull) or is_open_stream(path)


def _check_stream(path: str | Path, target: Path) -> None:
    if str(target) != STANDARD_OUTPUT and not exists(target):
        raise OutputError(f"{path} is not an open stream; name a file")


def _check_suffix(path: Path, kind: Format) -> None:
    """Refuse another suffix than those of a format, except a number, as of a date."""
    suffix = ending(path)
    if kind.endings and suffix not in ("", *kind.endings) and not suffix.isdigit():
        known = " or ".join(f".{each}" for each in kind.endings)
        raise OutputError(
            f"{path}: the suffix {path.suffix} is not that of {kind.name}; name the "
            f"file with {known}"
        )


def _check_file(path: str | Path, target: Path, kind: Format, force: bool) -> None:
    folder = target.parent
    if exists(target) and (found := special(target)):
        inside = " in it" if target.is_dir() else ", or - for standard output"
        raise OutputError(f"{path} is {found}; name a file{inside}")
    if not folder.is_dir():
        raise OutputError(
            f"cannot write {path}: there is no folder {folder}; make it, or name "
            "another"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot write {path}: user {os.geteuid()} may not write to {folder}; "
            "name another folder"
        )
    if exists(target) and not force:
        _check_existing(path, target, kind)


def _check_existing(path: str | Path, target: Path, kind: Format) -> None:
    status = target.stat()
    replace = "replace it by --force (force=True in Python)"
    instead = f"name another file, or {replace if kind.has_force else 'remove it'}"
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise OutputError(
            f"{path} exists and is not writable "
            f"(mode {stat.S_IMODE(status.st_mode):o}); {instead}"
        )
    if reason := _not_ours(target, status.st_size, kind):
        raise OutputError(f"{path} exists and {reason}; {instead}")


def _not_ours(target: Path, nbytes: int, kind: Format) -> str:
    """The reason why a file must not be replaced; empty if it may be."""
    if kind.magic and _begins_with(target, kind.magic):
        return ""
    data = target.read_bytes() if nbytes <= LARGEST else b""
    if not nbytes or seal.is_unchanged(data, kind.name):
        return ""
    if seal.is_marked(data, kind.name):
        return "was changed since collalgo wrote it"
    return f"is not {kind.name} that collalgo has written ({nbytes} bytes)"


def _begins_with(target: Path, magic: bytes) -> bool:
    with target.open("rb") as file:
        return file.read(len(magic)) == magic


def _append(target: Path, data: bytes) -> None:
    if is_standard_output(target):
        if sys.stdout is None:  # as Python finds a closed one
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
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
        with open(partial, "xb", opener=owned.opener) as file:
            if exists(target):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())  # reports a full disk before the rename
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
