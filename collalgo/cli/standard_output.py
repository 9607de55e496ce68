"""Standard output that cannot be written: one sentence, and exit code 1."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import click

#: The errors of a stream that takes no more, as a file on a full disk.
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF,
            errno.EPIPE)  # fmt: skip


@contextmanager
def refusing_output() -> Iterator[None]:
    """End a command by exit code 1 if standard output cannot be written."""
    try:
        yield
    except SystemExit as end:
        error = _flush()
        if error is not None:
            _end(error, silent=bool(end.code))  # the command has said why it failed
        raise
    except OSError as error:
        if error.errno not in REFUSALS or error.filename is not None:
            raise
        _end(error)


def _flush() -> OSError | None:
    """Write what waits, and return the error if that fails."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except OSError as error:
        return error
    return None


def _end(error: OSError, *, silent: bool = False) -> NoReturn:
    """Say what cannot be written, unless its reader has ended, and discard it."""
    _discard(sys.stdout)
    if not silent and error.errno != errno.EPIPE:
        text = f"Error: cannot write to standard output: {error.strerror}"
        try:
            click.echo(text, err=True)
        except OSError:
            _discard(sys.stderr)
    sys.exit(1)


def _discard(stream: TextIO | None) -> None:
    """Let Python write at its exit what waits in a stream to nowhere."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
