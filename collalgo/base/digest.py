"""BLAKE2, the hash of the library for all but messages of stores.

:mod:`hashlib` loads OpenSSL, which takes 3 ms of the start of each rank.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # of CPython
    except ImportError:
        from hashlib import blake2b

__all__ = ["blake2b", "hexadecimal"]


def hexadecimal(text: str, digits: int) -> str:
    """The hash of a text, in some hexadecimal digits, an even number."""
    return blake2b(text.encode(), digest_size=digits // 2).hexdigest()
