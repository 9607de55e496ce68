"""Parse and format sizes and times with units."""

import re
from numbers import Real
from typing import Any

from collalgo.base.arguments import shown, wrong_type

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

#: A number, a unit, and perhaps the word for bytes.
SIZE = re.compile(
    r"(\d{1,20}(?:\.\d{1,20})?(?:e\+?\d{1,2})?)\s*([KMGT]?)(?:i?B)?",
    re.IGNORECASE | re.ASCII,
)

#: A unit alone.
UNIT = re.compile(r"[KMGT](?:i?B)?", re.IGNORECASE)

#: Seconds of each unit of time; a text has the first that it ends with.
TIMES = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "": 1.0}

#: The largest size, in bytes.
LARGEST = 2**62


def size_in_bytes(text: str) -> int:
    """A size in bytes; units are powers of 1024, with or without ``B``.

    >>> size_in_bytes("8"), size_in_bytes("200 MB"), size_in_bytes("1.5KiB")
    (8, 209715200, 1536)
    >>> size_in_bytes("1e6")
    1000000

    Raises
    ------
    ValueError
        If it is not a size, not a whole number of bytes, or too large.
    """
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r:.60} is not a size; write 8, 4K, 64MB or 1e6")
    from decimal import Decimal  # 1 ms, which few ranks need

    nbytes = Decimal(found[1]) * UNITS[found[2].upper()]
    if nbytes != int(nbytes):
        raise ValueError(f"{text!r} is {nbytes} bytes; pass a whole number of bytes")
    if nbytes > LARGEST:
        raise ValueError(f"{text!r} is {nbytes} bytes; the maximum is {LARGEST}")
    return int(nbytes)


def time_in_seconds(text: str) -> float:
    """A time in seconds.

    >>> time_in_seconds("0.5"), time_in_seconds("250 ms"), time_in_seconds("1e3us")
    (0.5, 0.25, 0.001)

    Raises
    ------
    ValueError
        If it is not a time.
    """
    unit = next(unit for unit in TIMES if text.endswith(unit))
    try:
        return float(text.removesuffix(unit)) * TIMES[unit]
    except ValueError:
        raise ValueError(
            f"{text!r:.60} is not a time; write 0.01, 3ms or 20us"
        ) from None


def number_of_bytes(value: Any, caller: str) -> int:
    """A number of bytes that a user passes: a whole number, or text as ``"1M"``.

    >>> number_of_bytes("4K", "select"), number_of_bytes(1e6, "select")
    (4096, 1000000)

    Raises
    ------
    TypeError
        If it is something else, as a bool.
    ValueError
        If it is negative, too large or not whole, or the text not a size.
    """
    if isinstance(value, str):
        try:
            return size_in_bytes(value)
        except ValueError as error:
            raise ValueError(f"{caller}: nbytes: {error}") from None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(caller, "nbytes", value, "a number of bytes, or text as '1M'")
    number: Any = value  # which may be infinite, or not a number
    if not 0 <= number <= LARGEST or number != int(number):
        raise ValueError(
            f"{caller}: nbytes is {shown(value)}; pass a whole number of bytes from 0 "
            "to 2**62"
        )
    return int(number)


def sizes_in_bytes(text: str, factor: int = 4) -> list[int]:
    """The sizes of a list of sizes and ranges, each once.

    In a range each size is ``factor`` times the previous one.

    >>> sizes_in_bytes("1K..16K,1M"), sizes_in_bytes("64")
    ([1024, 4096, 16384, 1048576], [64])

    Raises
    ------
    ValueError
        If a part is not a size, or a range ends before it begins.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if dots and not (first.strip() and last.strip()):
            raise ValueError(f"{part!r:.60}: a range has two sizes; write 1K..1G")
        low = size_in_bytes(first)
        high = size_in_bytes(last) if dots else low
        if high < low:
            raise ValueError(f"the range {part!r:.60} ends before it begins")
        found += sizes_between(low, high, factor)
    return list(dict.fromkeys(found))


def sizes_between(first: int, last: int, factor: int) -> list[int]:
    """The sizes from the first to the last, each ``factor`` times the previous one.

    After 0 follow 1 and its multiples.

    >>> sizes_between(0, 8, 2)
    [0, 1, 2, 4, 8]
    """
    sizes = [first]
    while (following := sizes[-1] * factor or 1) <= last:
        sizes.append(following)
    return sizes


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "rank"), counted(2, "rank")
    ('1 rank', '2 ranks')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def human(nbytes: float) -> str:
    """A size in bytes, with a binary unit."""
    for unit, width in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= width:
            return f"{nbytes / width:.4g} {unit}"
    return f"{nbytes:.4g} B"


def human_time(seconds: float) -> str:
    """A time in seconds, with a unit.

    >>> human_time(0.0859), human_time(3.2e-6)
    ('85.9 ms', '3.2 us')
    """
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
