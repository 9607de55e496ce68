"""The log of a store in a folder: a file to which all processes append their changes.

A process appends while it holds a lock of the folder, which its end releases. Whoever
reads needs no lock: a record counts once it is whole, by its checksum. What a process
has left unfinished is cut off by the next one that appends.
"""

import fcntl
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import IO, NamedTuple

from collalgo.base import owned
from collalgo.base.existence import exists
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, KEY_BYTES, StoreError

#: The start of the file, its generation, and the last version before its records.
HEAD = struct.Struct("<8s8sQ")
MARK = b"CLGLOG01"

#: The start of a file that another one has replaced. On NFS 3 a host may open it by the
#: name of that for as long as its attributes of the folder are cached, up to a minute.
REPLACED = b"CLGLOGXX"

#: The number of times that the file is opened, if it has been replaced each time.
OPENINGS = 3

#: The bytes of a record that follow, and their checksum.
FRAME = struct.Struct("<II")

#: The kind of a record, its version, its lease, and the bytes of its key.
RECORD = struct.Struct("<BQQI")

#: Bytes of a value, and of a record, at most.
LARGEST = 16 << 20
MOST_BYTES = RECORD.size + KEY_BYTES + LARGEST

#: Seconds between two attempts to get the lock.
LOCK_PAUSE = 0.002


class Kind(Enum):
    """The kind of a record."""

    PUT = 1
    DELETE = 2
    GRANT = 3
    END = 4


class Record(NamedTuple):
    """A change: of a key, or of a lease, whose value has its seconds."""

    kind: Kind
    version: int
    lease: int = 0
    key: str = ""
    value: bytes = b""

    def encode(self) -> bytes:
        """The record in the file."""
        key = self.key.encode()
        head = RECORD.pack(self.kind.value, self.version, self.lease, len(key))
        body = head + key + self.value
        return FRAME.pack(len(body), zlib.crc32(body)) + body

    @classmethod
    def decode(cls, body: bytes) -> "Record":
        """The record of some bytes.

        Raises
        ------
        ValueError
            If they are malformed.
        """
        if len(body) < RECORD.size:
            raise ValueError("a record is too short")
        kind, version, lease, length = RECORD.unpack_from(body)
        key, value = body[RECORD.size :][:length], body[RECORD.size + length :]
        return cls(Kind(kind), version, lease, key.decode(), value)


class FileLog:
    """The log of a folder, as one process reads it and appends to it.

    Attributes
    ----------
    base : int
        The version that precedes its records.
    uncompacted : int
        The bytes up to which it is not replaced, as that has failed.
    """

    def __init__(self, folder: Path):
        self._path, self._lock_path = folder / "log", folder / "lock"
        self._generation, self._offset, self.base = b"", 0, 0
        self.uncompacted = 0
        with self.locked():
            if not exists(self._path):
                self._write(0, ())

    @property
    def nbytes(self) -> int:
        """The bytes that were read."""
        return self._offset

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, so that no other process appends.

        Raises
        ------
        StoreError
            If another holds the lock for too long, or the file system has none.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = owned.private(str(self._lock_path), flags)
        end = time.monotonic() + ANSWER_SECONDS
        try:
            while not _try_lock(descriptor):
                if time.monotonic() > end:
                    raise StoreError(
                        f"{self._lock_path} was locked for {ANSWER_SECONDS:g} s; is a "
                        "process of the job paused?"
                    )
                time.sleep(LOCK_PAUSE)
            yield
        finally:
            with suppress(OSError):  # now: a child that was forked keeps it open
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def read(self) -> tuple[bool, list[Record]]:
        """Whether the file was rewritten, and the records since the last read.

        Raises
        ------
        StoreError
            If the file is damaged.
        """
        with self._opened("rb") as file:
            generation, base = self._head(file.read(HEAD.size))
            is_new = generation != self._generation
            offset = HEAD.size if is_new else self._offset
            file.seek(offset)
            bodies = list(_bodies(file.read()))
        records = [self._record(body) for body in bodies]
        self._generation, self.base = generation, base
        self._offset = offset + sum(FRAME.size + len(body) for body in bodies)
        return is_new, records

    @contextmanager
    def _opened(self, mode: str) -> Iterator[IO[bytes]]:
        """Open the file, and not one that it has replaced, as just before the read."""
        for _ in range(OPENINGS):
            with self._path.open(mode) as file:
                if file.read(len(REPLACED)) != REPLACED:
                    file.seek(0)
                    yield file
                    return
            list(self._path.parent.iterdir())  # an NFS client then reads it again
        raise StoreError(f"{self._path} has just been replaced; try again")

    def _head(self, data: bytes) -> tuple[bytes, int]:
        """The generation of the file, and its base."""
        if len(data) < HEAD.size or not data.startswith(MARK):
            raise StoreError(f"{self._path} is not the log of a store; remove it")
        _, generation, base = HEAD.unpack(data)
        return generation, base

    def _record(self, body: bytes) -> Record:
        try:
            return Record.decode(body)
        except ValueError as error:
            raise StoreError(f"{self._path} is damaged: {error}") from None

    def append(self, records: Iterable[Record]) -> None:
        """Append records after all that were read, with the lock held."""
        data = b"".join(record.encode() for record in records)
        with self._opened("r+b") as file:
            file.seek(self._offset)
            self._check_rest(file.read())
            file.truncate(self._offset)
            file.seek(self._offset)
            file.write(data)

    def _check_rest(self, rest: bytes) -> None:
        """Refuse to truncate more than one unfinished record of another process."""
        length = FRAME.unpack_from(rest)[0] if len(rest) >= FRAME.size else 0
        is_zeros = not rest.strip(b"\0")  # the file grew, and its content was lost
        if length > MOST_BYTES or (length < len(rest) - FRAME.size and not is_zeros):
            raise StoreError(
                f"{self._path} is damaged at byte {self._offset} of "
                f"{self._offset + len(rest)}; remove the folder, and start again"
            )

    def compact(self, base: int, records: Iterable[Record]) -> None:
        """Replace the file by one with these records, with the lock held.

        If the disk is full, it is not replaced until it has twice its bytes.
        """
        try:
            with self._path.open("r+b") as before:
                self._write(base, records)
                before.write(REPLACED)  # for clients with an earlier view of the folder
        except OSError:
            self.uncompacted = 2 * self._offset

    def _write(self, base: int, records: Iterable[Record]) -> None:
        partial = self._path.with_suffix(f".{secrets.token_hex(8)}")
        head = HEAD.pack(MARK, secrets.token_bytes(8), base)
        try:
            with open(partial, "xb", opener=owned.private) as made:
                made.write(head + b"".join(record.encode() for record in records))
            partial.replace(self._path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _bodies(data: bytes) -> Iterator[bytes]:
    """The whole records at the begin of some bytes; on NFS zeros may follow them."""
    at = 0
    while at + FRAME.size <= len(data):
        length, checksum = FRAME.unpack_from(data, at)
        if not RECORD.size <= length <= MOST_BYTES:
            return
        at += FRAME.size
        body = data[at : at + length]
        if len(body) < length or zlib.crc32(body) != checksum:
            return
        at += length
        yield body


def _try_lock(descriptor: int) -> bool:
    """Lock a file, unless another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
