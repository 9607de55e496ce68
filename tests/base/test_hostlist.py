"""The order of names with numbers at their ends."""

import pytest

from collalgo.base.hostlist import natural_order


@pytest.mark.parametrize("stem", ["", "gpu", "host-1/nic", "9x"])
def test_numbers_at_the_ends_of_names_are_compared_as_numbers(stem):
    numbers = [100, 9, 0, 999_999_999, 33, 10, 1]
    names = sorted([f"{stem}{number}" for number in numbers], key=natural_order)
    assert names == [f"{stem}{number}" for number in sorted(numbers)]


def test_a_name_of_any_length_has_an_order():
    """As of a member whose name came over the network: Python refuses to read it."""
    long = "n" + "1" * 5000
    assert sorted([long, "n1"], key=natural_order) == ["n1", long]
