"""Seals: whether collalgo wrote a file, and whether it was changed since.

An output file has a mark in a comment or a field of its format: its kind, and a
checksum of all its bytes with zeros in place of the checksum::

    a topology made by collalgo, checksum 0123456789abcdef0123456789abcdef
"""

import re
from zlib import crc32

from collalgo.base.digest import blake2b

#: The text in the mark of every file.
MAKER = "made by collalgo"

#: The hexadecimal digits of a checksum, and those of a file that has none yet.
DIGITS = 32
UNSEALED = "0" * DIGITS

_PNG = b"\x89PNG\r\n\x1a\n"


def mark_of(kind: str) -> str:
    """The mark to write into a file of a kind, before it is sealed."""
    return f"{kind} {MAKER}, checksum {UNSEALED}"


def sealed(data: bytes, kind: str) -> bytes:
    """A file with its checksum in its mark; a file without a mark stays as it is."""
    place = _place(data, kind)
    if place is None:
        return data
    blank = _with_digits(data, place, UNSEALED.encode())
    return _with_digits(blank, place, _checksum(blank))


def is_marked(data: bytes, kind: str) -> bool:
    """Whether a file has the mark of a kind."""
    return _place(data, kind) is not None


def is_unchanged(data: bytes, kind: str) -> bool:
    """Whether a file is exactly the result of :func:`sealed` for this kind."""
    return is_marked(data, kind) and sealed(data, kind) == data


def _place(data: bytes, kind: str) -> int | None:
    """The index of the first digit of the checksum."""
    before = f"{kind} {MAKER}, checksum ".encode()
    found = re.search(re.escape(before) + rb"(?=[0-9a-f]{%d})" % DIGITS, data)
    return found.end() if found else None


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGITS // 2).hexdigest().encode()


def _with_digits(data: bytes, place: int, digits: bytes) -> bytes:
    """A file with other digits; in a PNG the mark ends a chunk with a CRC behind it."""
    end = place + DIGITS
    changed = data[:place] + digits + data[end:]
    if not data.startswith(_PNG):
        return changed
    begin = changed.rfind(b"tEXt", 0, place)
    if begin < 0:  # written by another program, in a chunk of another kind
        return changed
    chunk = changed[begin:end]
    return changed[:end] + crc32(chunk).to_bytes(4, "big") + changed[end + 4 :]
