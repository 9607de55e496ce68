"""Checkpoints: a state in a file, written atomically and with a hash.

The file has a magic line, the length of the head, the head as JSON (the revision and
the skeleton; see :mod:`.tree`), the bytes of the arrays, and a hash of all before.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from collalgo.base import output_files
from collalgo.base.input_files import special
from collalgo.elastic.leaves import description, raw
from collalgo.elastic.snapshot import Snapshot, checked_length, length_of
from collalgo.elastic.tree import check, forms
from collalgo.errors import CollalgoError

#: The first bytes of a checkpoint: the format and its version.
MAGIC = b"collalgo checkpoint 1\n"

#: Bytes of the length of the head, and of the hash.
LENGTH_BYTES, HASH_BYTES = 8, 32

#: Bytes before the head, and after the arrays.
ENDS = len(MAGIC) + LENGTH_BYTES + HASH_BYTES

#: The reason of an error about a file of which a bit has changed.
WRONG_HASH = "its hash does not match its content"

#: Bytes that are read at once from a file that is damaged.
BLOCK = 1 << 20

#: Bytes of a head at most.
MOST_HEAD = 1 << 28

#: Errors of JSON, of NumPy and of torch about what is not a state.
UNREADABLE = ValueError, TypeError, AttributeError, RuntimeError

#: A part of a file.
Piece = output_files.Piece

CHECKPOINT = output_files.Format("a checkpoint", MAGIC, has_force=False)


def write_checkpoint(path: str | Path, snapshot: Snapshot) -> None:
    """Write a checkpoint; a former one is replaced.

    Raises
    ------
    OutputError
        If it cannot be written, or the existing file is not a checkpoint.
    """
    output_files.write(path, _pieces(snapshot), CHECKPOINT)


def _pieces(snapshot: Snapshot) -> Iterator[Piece]:
    head = json.dumps([snapshot.revision, snapshot.skeleton]).encode()
    found = hashlib.blake2b(digest_size=HASH_BYTES)
    length = len(head).to_bytes(LENGTH_BYTES, "little")
    pieces: Iterable[Piece] = chain([MAGIC, length, head], _elements(snapshot))
    for piece in pieces:
        found.update(piece)
        yield piece
    yield found.digest()


def _elements(snapshot: Snapshot) -> Iterator[memoryview]:
    """The bytes of the arrays, without a copy."""
    return (raw(array).data for array in snapshot.arrays)


def read_checkpoint(path: str | Path) -> Snapshot:
    """Read a checkpoint.

    Raises
    ------
    CollalgoError
        If it is cut, damaged, or no checkpoint.
    OSError
        If it cannot be read.
    """
    try:
        return _from_file(Path(path))
    except OSError as error:
        words = f"State.load: {error.strerror}"
        raise type(error)(error.errno, words, str(path)) from None


def _from_file(path: Path) -> Snapshot:
    if kind := special(path):
        raise CollalgoError(f"{path} is {kind}; name a checkpoint")
    with path.open("rb") as file:
        size, magic = path.stat().st_size, file.read(len(MAGIC))
        if not MAGIC.startswith(magic):
            raise CollalgoError(
                f"{path} is not a checkpoint of this version of collalgo: it begins "
                f"with {magic[:30]!r}"
            )
        if size < ENDS:
            raise _cut(path, size, f"at least {ENDS}")
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if length > MOST_HEAD:
            raise _damaged(path, f"its head has {length} bytes")
        if size < ENDS + length:
            raise _cut(path, size, f"at least {ENDS + length}")
        return _read(path, file, file.read(length), size - ENDS - length)


def _read(path: Path, file: BufferedReader, head: bytes, nbytes: int) -> Snapshot:
    """Read the ``nbytes`` of arrays that a head describes, and check the hash."""
    found = hashlib.blake2b(MAGIC, digest_size=HASH_BYTES)
    found.update(len(head).to_bytes(LENGTH_BYTES, "little"))
    found.update(head)
    try:
        snapshot, revision = _described(head, nbytes)
        arrays = list(_elements(snapshot))
    except UNREADABLE as error:
        why = str(error) if _is_as_written(file, found, nbytes) else WRONG_HASH
        raise _cut_or_damaged(path, head, nbytes, why) from None
    for elements in arrays:
        file.readinto(elements)
        found.update(elements)
    if file.read(HASH_BYTES) != found.digest():
        raise _damaged(path, WRONG_HASH)
    if type(revision) is not int or revision < 0:
        raise _damaged(path, f"its revision is {str(revision)[:20]}")
    snapshot.revision = revision
    return snapshot


def _is_as_written(file: BufferedReader, found: Any, nbytes: int) -> bool:
    """Whether the hash so far and the rest of a file give the hash at its end."""
    for begin in range(0, nbytes, BLOCK):
        found.update(file.read(min(BLOCK, nbytes - begin)))
    return bool(file.read(HASH_BYTES) == found.digest())


def _described(head: bytes, nbytes: int) -> tuple[Snapshot, Any]:
    """A snapshot with room for the arrays of a head, and the revision."""
    revision, skeleton = json.loads(head)
    check(skeleton)
    checked_length(skeleton, nbytes)
    snapshot = Snapshot()
    snapshot.make_room(skeleton)
    return snapshot, revision


def _cut_or_damaged(path: Path, head: bytes, nbytes: int, why: str) -> CollalgoError:
    """The error of a file whose head does not describe its ``nbytes`` of arrays."""
    needed = nbytes
    with suppress(*UNREADABLE):
        _, skeleton = json.loads(head)
        check(skeleton)
        needed = length_of(skeleton)
    rest = ENDS + len(head)
    if nbytes < needed and why is WRONG_HASH:
        return _cut(path, rest + nbytes, str(rest + needed))
    if nbytes > needed:
        why = f"it has {rest + nbytes} bytes, but describes {rest + needed}"
    return _damaged(path, why)


def check_forms(path: str | Path, name: str, found: Any, present: Any) -> None:
    """Compare the arrays of a value in a checkpoint with those of a state.

    Raises
    ------
    CollalgoError
        If a shape or a dtype is another, or if their numbers differ.
    """
    pairs = zip_longest(forms(found), forms(present))
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if different is not None:
        theirs, ours = map(description, different)
        raise CollalgoError(
            f"{path} has {theirs} in the value {name}, but the state {ours}; make the "
            "state with arrays of the same shapes and dtypes"
        )


def _damaged(path: Path, why: str) -> CollalgoError:
    return CollalgoError(f"the checkpoint {path} is damaged: {why}; use an earlier one")


def _cut(path: Path, nbytes: int, needed: str) -> CollalgoError:
    return CollalgoError(
        f"the checkpoint {path} is cut: it has {nbytes} of {needed} bytes; use an "
        "earlier one"
    )
