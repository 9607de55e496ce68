"""The fields of messages of Protocol Buffers, without a schema.

Source: the encoding page of the documentation of Protocol Buffers.
"""

from collections.abc import Iterator

from collalgo.errors import CollalgoError

#: The bytes of a field of a fixed length, by its wire type.
FIXED = {1: 8, 5: 4}

#: The most bytes of a variable-length integer.
LONGEST = 10


class ChakraError(CollalgoError, ValueError):
    """A file is not a Chakra trace, or it is damaged."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of up to 64 bits, and the index after it."""
    value = 0
    for i, byte in enumerate(data[at : at + LONGEST]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & (1 << 64) - 1, at + i + 1
    raise ChakraError(f"byte {at} begins no integer of at most {LONGEST} bytes")


def delimited(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes that follow their length, and the index after them."""
    length, at = varint(data, at)
    left = len(data) - at
    if length > left:
        raise ChakraError(f"{length} bytes begin at {at}, but {left} are left")
    return data[at : at + length], at + length


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            value, at = delimited(data, at)
        elif kind in FIXED and at + FIXED[kind] <= len(data):
            value, at = data[at : at + FIXED[kind]], at + FIXED[kind]
        else:
            raise ChakraError(f"byte {at} begins a field of the unknown type {kind}")
        yield key >> 3, value


def signed(value: int) -> int:
    """A 64-bit integer in two's complement."""
    return value - (1 << 64) if value >> 63 else value
