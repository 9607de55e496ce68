"""The records in the log of a store in a folder: their bytes, and damage to these."""

import re
import struct
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from collalgo.bootstrap.store.protocol import KEY_BYTES

#: The bytes of a record that follow, and their checksum.
FRAME = struct.Struct("<II")

#: The kind of a record, its version, its lease, and the bytes of its key.
RECORD = struct.Struct("<BQQI")

#: Bytes of a value, and of a record, at most.
LARGEST = 16 << 20
MOST_BYTES = RECORD.size + KEY_BYTES + LARGEST

#: What a frame and a record begin with, as versions and lengths are small numbers.
BEGIN = re.compile(rb"(?s)(?=...[\0\1].{4}[\1-\4].{5}\0{3}.{10}\0\0)")


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


def bodies(data: bytes) -> Iterator[bytes]:
    """The whole records at the begin of some bytes; on NFS zeros may follow them."""
    at = 0
    while (body := _body_at(data, at)) is not None:
        at += FRAME.size + len(body)
        yield body


def _body_at(data: bytes, at: int) -> bytes | None:
    """The record that begins at a byte, if it is whole."""
    if at + FRAME.size > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, at)
    if not RECORD.size <= length <= MOST_BYTES:
        return None
    begin = at + FRAME.size
    body = data[begin : begin + length]
    return body if len(body) == length and zlib.crc32(body) == checksum else None


def is_damaged(rest: bytes) -> bool:
    """Whether what follows the whole records is more than one unfinished record."""
    length = FRAME.unpack_from(rest)[0] if len(rest) >= FRAME.size else 0
    if length > MOST_BYTES or 0 < length < len(rest) - FRAME.size:
        return True
    begins = (found.start() for found in BEGIN.finditer(rest))
    return any(_body_at(rest, at) is not None for at in begins)


def may_be_cut_off(rest: bytes) -> bool:
    """Whether it is one unfinished record of a process that has ended."""
    is_zeros = not rest.strip(b"\0")  # the file grew, and its content was lost
    begins_with_zeros = not rest[: FRAME.size].strip(b"\0")
    return is_zeros or not (begins_with_zeros or is_damaged(rest))
