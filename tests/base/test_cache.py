"""Bounded caches keep the values that were used last."""

from functools import partial

import pytest

from collalgo.base.cache import RecentlyUsed


def filled(most, sizes):
    """A cache of as many values as sizes, which are their bytes."""
    cache = RecentlyUsed(most, len)
    for number, size in enumerate(sizes):
        assert cache.get(number, partial(bytearray, size)) == bytearray(size)
    return cache


def kept(cache, count):
    """The keys of a cache of some values; asking for one makes it the newest."""
    found = []
    for number in range(count):

        def missing():
            raise KeyError

        try:
            cache.get(number, missing)
        except KeyError:
            continue
        found.append(number)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_values_of_more_bytes_than_the_most_are_dropped_from_the_oldest_on(count):
    for most in (1, 10, 25, 1000):
        cache = filled(most, [10] * count)
        fit = min(count, max(1, most // 10))
        assert kept(cache, count) == [*range(count - fit, count)]


def test_the_newest_value_is_kept_whatever_its_size():
    assert kept(filled(10, [4, 4, 100]), 3) == [2]
    assert kept(filled(10, [100, 4, 4]), 3) == [1, 2]


def test_a_value_that_is_asked_for_again_is_the_newest():
    cache = filled(30, [10, 10, 10])
    assert cache.get(0, bytearray) == bytearray(10)
    cache.get(3, lambda: bytearray(10))
    assert kept(cache, 4) == [0, 2, 3]


def test_values_that_grow_make_room_for_themselves():
    values = [bytearray(1) for _ in range(9)]
    cache = RecentlyUsed(100, len)
    for number, value in enumerate(values):
        cache.get(number, lambda value=value: value)
    for value in values:
        value.extend(bytes(29))
    for number in range(9, 18):
        cache.get(number, lambda: bytearray(1))
    found = kept(cache, 18)
    assert found[-9:] == [*range(9, 18)]
    assert sum(len(values[number]) for number in found[:-9]) + 9 <= 100


def test_a_value_that_has_grown_makes_room_when_it_is_used():
    values = [bytearray(10) for _ in range(3)]
    cache = RecentlyUsed(30, len)
    for number in (0, 1, 2):
        cache.get(number, lambda number=number: values[number])
    values[0].extend(bytes(10))
    assert cache.get(0, bytearray) is values[0]
    assert kept(cache, 3) == [0, 2]


def test_a_value_that_cannot_be_made_is_not_kept():
    cache = RecentlyUsed(10, len)
    assert kept(cache, 1) == []
    assert cache.get(0, lambda: b"made") == b"made"


def test_a_value_that_another_thread_makes_meanwhile_is_counted_once():
    cache = RecentlyUsed(30, len)

    def made_twice():
        cache.get(0, lambda: b"0" * 10)
        return b"1" * 10

    assert cache.get(0, made_twice) == b"0" * 10
    cache.get(1, lambda: bytearray(10))
    cache.get(2, lambda: bytearray(10))
    assert kept(cache, 3) == [0, 1, 2]
    assert cache._total == 30
