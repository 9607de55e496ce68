"""The log of a store in a folder: a file to which all processes append their changes.

A process appends while it holds a lock of the folder, which its end releases. Whoever
reads needs no lock: a record counts once it is whole, by its checksum. What a process
has left unfinished is cut off by the next one that appends; all else is damage.
"""

import fcntl
import logging
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from collalgo.base import owned
from collalgo.base.existence import exists
from collalgo.bootstrap.store.file_record import (
    FRAME,
    Record,
    bodies,
    is_damaged,
    may_be_cut_off,
)
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, StoreError

_LOG = logging.getLogger("collalgo")

#: The start of the file, its generation, the last version before its records, and the
#: checksum of these.
HEAD = struct.Struct("<8s8sQI")
MARK, FAMILY = b"CLGLOG02", b"CLGLOG"
CHECKSUM_BYTES = 4

#: The start of a file that another one has replaced. On NFS 3 a host may open it by the
#: name of that for as long as its attributes of the folder are cached, up to a minute.
REPLACED = b"CLGLOGXX"

#: The number of times that the file is opened, if it has been replaced each time.
OPENINGS = 3

#: Seconds between two attempts to get the lock.
LOCK_PAUSE = 0.002

#: Seconds after which what looks like damage is not a change under way.
SETTLED_SECONDS = 0.5


class DamageError(StoreError):
    """The log is damaged."""


class DamageLog:
    """Logs damage once, also where no caller uses the store for long."""

    def __init__(self) -> None:
        self._told = ""

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Log damage that is found meanwhile; hide all errors of the store."""
        try:
            yield
        except DamageError as error:
            if str(error) != self._told:
                _LOG.error("%s", error)
            self._told = str(error)
        except StoreError:
            pass


class Loaded(NamedTuple):
    """What was read of the file.

    Attributes
    ----------
    generation : bytes
        The generation of the file.
    base : int
        The version that precedes its records.
    is_new : bool
        Whether the file was rewritten since the last read.
    bodies : list of bytes
        The records since the last read.
    end : int
        Where these end.
    rest : bytes
        What follows them.
    """

    generation: bytes
    base: int
    is_new: bool
    bodies: list[bytes]
    end: int
    rest: bytes

    @property
    def extent(self) -> tuple[bytes, int, int]:
        """The generation, and where the records and the file end."""
        return self.generation, self.end, self.end + len(self.rest)


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
        self._unfinished = self._damaged = b"", 0, 0  # extents that were judged
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
        found = self._settled()
        records = [self._record(body) for body in found.bodies]
        self._generation, self.base = found.generation, found.base
        self._offset = found.end
        return found.is_new, records

    def _settled(self) -> Loaded:
        """Read the file, again if another process is just changing it."""
        end = time.monotonic() + SETTLED_SECONDS
        while True:
            found = self._load()
            if found.extent == self._unfinished or not is_damaged(found.rest):
                self._unfinished = found.extent
                return found
            if found.extent == self._damaged or time.monotonic() > end:
                self._damaged = found.extent
                raise self._damage_at(found.end, found.rest)
            time.sleep(LOCK_PAUSE)

    def _load(self) -> Loaded:
        with self._opened("rb") as file:
            generation, base = self._head(file.read(HEAD.size))
            is_new = generation != self._generation
            start = HEAD.size if is_new else self._offset
            file.seek(start)
            data = file.read()
        whole = list(bodies(data))
        nbytes = sum(FRAME.size + len(body) for body in whole)
        return Loaded(generation, base, is_new, whole, start + nbytes, data[nbytes:])

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
        if data.startswith(FAMILY) and not data.startswith(MARK):
            raise StoreError(
                f"{self._path} is of another version of collalgo; remove the folder"
            )
        if len(data) < HEAD.size or not data.startswith(MARK):
            raise StoreError(f"{self._path} is not the log of a store; remove it")
        _, generation, base, checksum = HEAD.unpack(data)
        if zlib.crc32(data[:-CHECKSUM_BYTES]) != checksum:
            raise DamageError(
                f"{self._path} is damaged in its first {HEAD.size} bytes; remove the "
                "folder, and start again"
            )
        return generation, base

    def _record(self, body: bytes) -> Record:
        try:
            return Record.decode(body)
        except ValueError as error:
            raise DamageError(f"{self._path} is damaged: {error}") from None

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
        if not may_be_cut_off(rest):
            raise self._damage_at(self._offset, rest)

    def _damage_at(self, offset: int, rest: bytes) -> StoreError:
        return DamageError(
            f"{self._path} is damaged at byte {offset} of {offset + len(rest)}; "
            "remove the folder, and start again"
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
        head = _encoded_head(secrets.token_bytes(8), base)
        try:
            with open(partial, "xb", opener=owned.private) as made:
                made.write(head + b"".join(record.encode() for record in records))
            partial.replace(self._path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _encoded_head(generation: bytes, base: int) -> bytes:
    """The start of a file, with its checksum."""
    head = HEAD.pack(MARK, generation, base, 0)[:-CHECKSUM_BYTES]
    return head + zlib.crc32(head).to_bytes(CHECKSUM_BYTES, "little")


def _try_lock(descriptor: int) -> bool:
    """Lock a file, unless another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
