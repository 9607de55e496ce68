"""Exchanges over a store: what they return, and the requests that they take."""

import random

import pytest
from hypothesis import given, strategies as st

from collalgo.bootstrap.exchange import StoreExchange, values_of


class CountingStore:
    """A store whose keys are set, in some order, as others wait; it counts requests."""

    def __init__(self, order, prefix="k/"):
        self._late = [f"{prefix}{number}" for number in order]
        self._set = {}
        self.gets = self.listings = self.listed = 0

    def set(self, key, value):
        self._set[key] = value

    def get(self, key, timeout):
        self.gets += 1
        while key not in self._set:
            self.arrive()
        return self._set[key]

    def present(self, prefix):
        self.listings += 1
        found = {key: one for key, one in self._set.items() if key.startswith(prefix)}
        self.listed += len(found)
        return found

    def arrive(self):
        key = self._late.pop(0)
        self._set.setdefault(key, key.encode())


@given(st.permutations(range(40)), st.integers(0, 40))
def test_values_come_in_the_order_of_numbers(order, set_before):
    store = CountingStore(order)
    for _ in range(set_before):
        store.arrive()
    expected = [f"k/{number}".encode() for number in range(40)]
    assert list(values_of(store, "k/", 40, 1.0)) == expected


def arrivals(kind, count):
    order = list(range(count))
    if kind == "random":
        random.Random(0).shuffle(order)
    return order[::-1] if kind == "reverse" else order


@pytest.mark.parametrize("kind", ["in order", "reverse", "random"])
@pytest.mark.parametrize("count", [1, 10, 1000])
def test_many_values_take_few_listings(kind, count):
    store = CountingStore(arrivals(kind, count))
    assert len(list(values_of(store, "k/", count, 1.0))) == count
    assert store.listings <= count.bit_length()
    assert store.listed <= 3 * count


@pytest.mark.parametrize("count", [2, 1000])
def test_values_that_are_all_set_take_one_request(count):
    store = CountingStore(range(count))
    for _ in range(count):
        store.arrive()
    list(values_of(store, "k/", count, 1.0))
    assert (store.gets, store.listings) == (0, 1)


def test_a_store_without_listings_is_asked_for_each_value():
    class Plain:
        def set(self, key, value): ...

        def get(self, key, timeout):
            return key.encode()

    assert list(values_of(Plain(), "k/", 3, 1.0)) == [b"k/0", b"k/1", b"k/2"]


def test_an_exchange_gathers_the_texts_in_the_order_of_ranks():
    store = CountingStore([])
    exchanges = [StoreExchange(store, rank, 3, 1.0) for rank in range(3)]
    for rank in (2, 0, 1):
        exchanges[rank].contribute(f"text {rank}")
    assert [one.collect() for one in exchanges] == [["text 0", "text 1", "text 2"]] * 3
