"""The hash of a state: XXH64 by its specification, and what it has to find."""

import numpy as np
import pytest

from collalgo._kernels.elastic.xxh64 import xxh64


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_known_texts_have_their_known_hashes(text, found):
    assert xxh64(np.frombuffer(text, np.uint8)) == found


def test_each_bit_each_length_and_the_order_count():
    """Also the signs of two numbers, which a sum of words would let cancel."""
    words = np.arange(1.0, 13.0)
    data = words.view(np.uint8)
    found = {xxh64(data[:length]) for length in range(len(data) + 1)}
    for place in range(len(data)):
        for bit in range(8):
            other = data.copy()
            other[place] ^= 1 << bit
            found.add(xxh64(other))
    for first in range(12):
        for second in range(first):
            signs, order = words.copy(), words.copy()
            signs[[first, second]] *= -1
            order[[first, second]] = order[[second, first]]
            found |= {xxh64(signs.view(np.uint8)), xxh64(order.view(np.uint8))}
    assert len(found) == len(data) + 1 + 8 * len(data) + 2 * 66
